// The GIL and the end of the interpreter.
//
// A thread that asks for the GIL once finalization has begun is ended inside the call, by unwinding that stops at the
// first C++ frame that lets nothing pass: the process aborts. Finalization begins after the atexit handlers, while
// daemon threads may be in a launch. So from our handler on no other thread asks for the GIL: its launches are
// cancelled, its callbacks do without Python, and instead of returning to Python it sleeps until the process is gone
// (as threads of Python 3.14 do).
#include "Core.h"
#include <atomic>
#include <pthread.h>
#include <unistd.h>

namespace tegula_python {
namespace {
std::atomic<bool> ended{false};
std::atomic<int> asking{0}; // threads between looking at `ended` and having the GIL
thread_local bool endsHere; // this thread ends the interpreter; it goes on as always

bool beginAsking() {
  ++asking;
  return !ended || endsHere;
}

void endAsking() {
  if (--asking == 0 && ended) asking.notify_all();
}

[[noreturn]] void sleepForGood() {
  for (;;) pause();
}
} // namespace

WithoutGil::WithoutGil() : state_(PyEval_SaveThread()) {}

WithoutGil::~WithoutGil() {
  bool goOn = beginAsking();
  if (goOn) PyEval_RestoreThread(static_cast<PyThreadState *>(state_));
  endAsking();
  if (!goOn) sleepForGood();
}

WithGil::WithGil() {
  has_ = beginAsking() && Py_IsInitialized();
  if (has_) state_ = PyGILState_Ensure();
  endAsking();
}

WithGil::~WithGil() {
  if (has_) PyGILState_Release(static_cast<PyGILState_STATE>(state_));
}

PyObject *beginExit(PyObject *, PyObject *) {
  endsHere = true;
  ended = true;
  if (TegulaContext *ctx = context()) tegula_cancel(ctx);
  PyErr_Clear();
  PyThreadState *state = PyEval_SaveThread();
  tegula_shutdown(); // compilations end before what they use of Python does
  for (int n; (n = asking) != 0;) asking.wait(n);
  PyEval_RestoreThread(state);
  Py_RETURN_NONE;
}

void forgetThreadsAfterFork() {
  pthread_atfork(nullptr, nullptr, [] { asking = 0; });
}

} // namespace tegula_python
