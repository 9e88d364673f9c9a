"""Work on all cores that nobody waits for longer than so long."""
import collections
import os
import threading
import time


def in_threads(call, items, limit=None):
    """{item: call(item)}, by as many threads as there are cores. What takes longer than `limit` seconds (None: nothing does) is not in it; its thread goes on by itself, and another
    one takes its place. The first exception of a call ends it and is raised here."""
    changed = threading.Condition()
    waiting, done, begun, late, failed = collections.deque(items), {}, {}, set(), []

    def work():
        while True:
            with changed:
                if not waiting or failed:
                    return
                item = waiting.popleft()
                begun[item] = time.monotonic()
                if limit is not None:
                    changed.notify_all()  # there is something to wait for
            try:
                result, error = call(item), None
            except BaseException as e:
                result, error = None, e
            with changed:
                if item in late:
                    return
                del begun[item]
                if error is None:
                    done[item] = result
                else:
                    failed.append(error)
                changed.notify_all()

    def start():
        # Of a daemon nobody waits for the end: it may be stuck.
        threading.Thread(target=work, daemon=True).start()

    count = len(waiting)
    for _ in range(min(os.cpu_count() or 1, count)):
        start()
    with changed:
        try:
            while len(done) + len(late) < count and not failed:
                now = time.monotonic()
                ends = [t + limit for t in begun.values()] if limit is not None else []
                # A signal may have come to another thread, which ends no waiting here.
                changed.wait(max(min([now + 0.2, *ends]) - now, 0))
                for item, t in list(begun.items()) if limit is not None else ():
                    if time.monotonic() >= t + limit:
                        late.add(item)
                        del begun[item]
                        start()
        finally:
            waiting.clear()  # Ctrl-C: what has not begun does not
    if failed:
        raise failed[0]
    return done
