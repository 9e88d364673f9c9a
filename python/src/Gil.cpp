// The GIL and the end of the interpreter.
//
// A thread that asks for the GIL once finalization has begun is ended inside the call, by unwinding that stops at the
// first C++ frame that lets nothing pass: the process aborts. Finalization begins after the atexit handlers, while
// daemon threads may be in a launch. So from our handler on no other thread asks for the GIL: its launches are
// cancelled, its callbacks do without Python, and instead of returning to Python it sleeps until the process is gone
// (as threads of Python 3.14 do).
#include "Core.h"
#include <atomic>
#include <mutex>
#include <pthread.h>
#include <unistd.h>

namespace tegula_python {
namespace {
std::atomic<bool> ended{false};
std::atomic<int> asking{0}; // threads between looking at `ended` and having the GIL
std::atomic<int> calling{0}; // threads of ours that are in Python, e.g. in sys.stdout.write
thread_local bool endsHere; // this thread ends the interpreter; it goes on as always
thread_local struct {
  PyObject *type, *value, *trace;
} kept; // by pollSignals()
std::mutex makingState; // held while a thread without the GIL makes its thread state, and by fork()

bool beginAsking() {
  ++asking;
  return !ended || endsHere;
}

void endAsking() {
  if (--asking == 0 && ended) asking.notify_all();
}

/// Gives this thread a thread state if it has none. It stays until the interpreter ends: the threads that need one are
/// the pool's. PyGILState_Ensure would make it while another thread may fork; the lock of the interpreter's list of
/// states is then taken for good in the child, which CPython 3.11 waits for before it resets it
/// (_PyThreadState_DeleteExcept).
void ensureState() {
  if (PyGILState_GetThisThreadState()) return;
  std::lock_guard<std::mutex> lock(makingState);
  PyThreadState_New(PyInterpreterState_Main());
}

[[noreturn]] void sleepForGood() {
  for (;;) pause();
}

/// Of a thread that called the library from Python and is about to sleep there.
void giveUpGil() {
  if (PyGILState_Check()) PyEval_SaveThread();
}
} // namespace

WithoutGil::WithoutGil() : state_(PyEval_SaveThread()) {}

WithoutGil::~WithoutGil() {
  bool goOn = beginAsking();
  if (goOn) PyEval_RestoreThread(static_cast<PyThreadState *>(state_));
  endAsking();
  if (!goOn) sleepForGood();
  if (!kept.type) return;
  PyErr_Restore(kept.type, kept.value, kept.trace);
  kept = {};
}

WithGil::WithGil() {
  has_ = beginAsking() && Py_IsInitialized();
  if (has_) {
    ensureState();
    state_ = PyGILState_Ensure();
    ++calling;
  }
  endAsking();
}

WithGil::~WithGil() {
  if (!has_) return;
  PyGILState_Release(static_cast<PyGILState_STATE>(state_));
  if (--calling == 0 && ended) calling.notify_all();
}

bool pollSignals() {
  if (PyErr_CheckSignals() == 0) return kept.type;
  Py_XDECREF(kept.type), Py_XDECREF(kept.value), Py_XDECREF(kept.trace);
  PyErr_Fetch(&kept.type, &kept.value, &kept.trace);
  return true;
}

PyObject *beginExit(PyObject *, PyObject *) {
  endsHere = true;
  ended = true;
  if (TegulaContext *ctx = context()) tegula_cancel(ctx);
  PyErr_Clear();
  PyThreadState *state = PyEval_SaveThread();
  tegula_shutdown(giveUpGil); // compilations end before what they use of Python does
  for (int n; (n = asking) != 0;) asking.wait(n);
  // A thread that is in Python may hold the lock of a file's buffer, which the interpreter wants when it closes its
  // files.
  for (int n; (n = calling) > 0;) calling.wait(n);
  PyEval_RestoreThread(state);
  Py_RETURN_NONE;
}

void forgetThreadsAfterFork() {
  pthread_atfork([] { makingState.lock(); }, [] { makingState.unlock(); },
                 [] {
                   makingState.unlock();
                   asking = calling = 0;
                 });
}

} // namespace tegula_python
