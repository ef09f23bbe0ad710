"""A lock with a lease and a fencing token: python3 lock.py URL ...

Three workers take turns to change one resource. A lock alone cannot protect it: a worker that
pauses for longer than its lease goes on although another one holds the lock by then. So the resource
takes only writes whose fencing token is the greatest that it has seen. The token is the version of
the write that took the lock, and later versions are greater.
"""
import http.client, json, pathlib, sys, threading, time, uuid
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from client import Failed, Kvorum

FAILURES = (Failed, OSError, ValueError, http.client.HTTPException)
LEASE_SECONDS = 3
WORKERS, TURNS = 3, 8
NODES = sys.argv[1:] or ["http://127.0.0.1:8080", "http://127.0.0.1:8081", "http://127.0.0.1:8082"]
RUN = uuid.uuid4().hex  # Each run has keys of its own.
LOCK, RESOURCE = f"lock/{RUN}".encode(), f"resource/{RUN}".encode()

class Lock:
    def __init__(self, kvorum):
        self.kvorum, self.etag, self.token = kvorum, None, None

    def take(self):
        """Waits for the lock. The holder writes an ID that nobody else writes, so it knows its own
        write again where an answer was lost."""
        me = uuid.uuid4().hex.encode()
        while True:
            try:
                taken = self.kvorum.put(LOCK, me, {"If-None-Match": "*"}, ttl=LEASE_SECONDS)
            except FAILURES:
                taken = self.read()  # 412, or an unknown outcome: a read says who holds it.
                if taken != me:
                    time.sleep(0.05)
                    continue
            self.etag, self.token = taken.etag, int(taken.version)
            return

    def renew(self):
        """Makes the lease longer, if it is still ours. False if it is not, or if that is unknown."""
        try:
            renewed = self.kvorum.put(LOCK, b"", {"If-Match": self.etag}, touch="true", ttl=LEASE_SECONDS)
        except FAILURES:
            return False
        self.etag = renewed.etag or self.etag
        return True

    def release(self):
        """If that fails, the lease ends by itself."""
        try:
            self.kvorum.delete(LOCK, {"If-Match": self.etag})
        except FAILURES:
            pass

    def read(self):
        try:
            return self.kvorum.get(LOCK)
        except FAILURES:
            return None

def change(kvorum, token, turn):
    """Changes the resource once for a turn. False if a greater token was there before."""
    while True:
        try:
            found = kvorum.get(RESOURCE)
            state = json.loads(found) if found else {"token": 0, "turns": []}
            if turn in state["turns"]:
                return True
            if state["token"] > token:
                return False
            state = {"token": token, "turns": state["turns"] + [turn]}
            condition = {"If-Match": found.etag} if found else {"If-None-Match": "*"}
            kvorum.put(RESOURCE, json.dumps(state).encode(), condition)
            return True
        except FAILURES:
            time.sleep(0.02)  # The next read says whether it took effect.

tokens, tokens_lock = [], threading.Lock()

def work(number):
    kvorum = Kvorum(*NODES[number % len(NODES):], *NODES[:number % len(NODES)])
    lock = Lock(kvorum)
    for turn in range(TURNS):
        while True:
            lock.take()
            with tokens_lock:
                tokens.append(lock.token)
                if len(tokens) == WORKERS * TURNS // 2:
                    print("half", flush=True)
            is_done = lock.renew() and change(kvorum, lock.token, f"{number}-{turn}")
            lock.release()
            if is_done:
                break

workers = [threading.Thread(target=work, args=(number,)) for number in range(WORKERS)]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
state = json.loads(Kvorum(*NODES).get(RESOURCE))
expected = {f"{number}-{turn}" for number in range(WORKERS) for turn in range(TURNS)}
if sorted(state["turns"]) != sorted(expected) or len(set(tokens)) != len(tokens):
    sys.exit(f"lost or done twice: {state}")
if state["token"] > max(tokens):
    sys.exit("the resource has a token that nobody had")
print(f"{len(tokens)} times locked")
print("ok")
