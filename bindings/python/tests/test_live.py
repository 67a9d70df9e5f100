"""Live market data: `test_live.py CHANNEL UDP_PORT`. Prints `ready`; the emulated channel is then sent on loopback, with packets lost on
both lines; after `sent` on its standard input it prints the books as one line of JSON, and `ok`."""

import json
import logging
import os
import signal
import sys
import threading
import time

from barewire.feed import Book, FeedError, Gap, Line, Live, Recovery, Statistic, Trade
from expect import raises

channel, udp_port = int(sys.argv[1]), int(sys.argv[2])
PATIENCE = 60


def eventually(what, is_so):
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end, what
        time.sleep(0.05)


# What is wrong is said before anything runs.
assert "nowhere.toml" in str(raises(FeedError, Live, "nowhere.toml"))
assert "either" in str(raises(FeedError, Live, "nowhere.toml", channel=1))
assert "candles" in str(raises(FeedError, Live, items=["candles"]))
assert "no table" in str(raises(FeedError, Live, collect=["status"]))
assert "port_b" in str(raises(FeedError, Live, port_b="mem:x"))
assert "not from both" in str(raises(FeedError, Live, port="mem:x", interface="lo"))
assert "which channels" in str(raises(FeedError, Live, channel_file="config.xml"))
assert "config.xml" in str(raises(FeedError, Live, channel=1, channel_file="config.xml"))
assert "at least 1" in str(raises(FeedError, Live, queue=0))
assert "nowhere0" in str(raises(FeedError, Live, interface="nowhere0"))
assert "carrier+pigeon" in str(raises(FeedError, Live, port="carrier+pigeon:x"))
raises(TypeError, Live, udp_port="x")

where = {"channel": channel, "udp_port": udp_port, "interface": "lo"}
feed = Live(**where, collect=["books", "trades"])
called = Live(**where)
slow = Live(**where, queue=10, items=["books"], collect=["books"], collect_rows=32)

# Nothing comes yet: a wait takes its time and no processor, and ends by a signal.
began, used = time.monotonic(), time.process_time()
assert feed.next(timeout=0.5) is None and time.monotonic() - began >= 0.5
assert time.process_time() - used < 0.25, "it waits busily"
# Whoever started this may have had it ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
raises(KeyboardInterrupt, feed.next)
assert feed.book(1) is None and feed.book("none such") is None and feed.instruments() == []
assert "no channel 7" in str(raises(FeedError, feed.book, 1, channel=7))
assert "not collected" in str(raises(FeedError, feed.table, "statistics"))
assert len(feed.table("trades")) == 0

# A child of fork() has no thread of the handler's: an error, and no wait for ever.
child = os.fork()
if child == 0:
    try:
        feed.counters()
    except FeedError:
        os._exit(0)
    os._exit(1)
assert os.waitpid(child, 0)[1] == 0

seen, logged = {"all": 0, "trades": 0}, []


class Kept(logging.Handler):
    def emit(self, record):
        logged.append(record)


logging.getLogger("barewire.feed").addHandler(Kept())
logging.getLogger("barewire.feed").propagate = False


@called.on()
def on_all(item):
    seen["all"] += 1


@called.on(Trade)
def on_trade(trade):
    seen["trades"] += 1
    raise ValueError("a callback's own mistake")


thread = called.start()
assert "callbacks take the items" in str(raises(FeedError, iter, called))
assert "already" in str(raises(FeedError, called.start))

last = {}


def end():
    """In another thread: the end of the sending, all that was kept, and the end of the iterator that waits."""
    assert sys.stdin.readline() == "sent\n"
    try:
        good = ("latest", "naturally_refreshed")
        eventually("all books are good", lambda: feed.instruments() and all(i.state in good for i in feed.instruments(channel)))
        # What the kernel still has of the loops changes no book.
        time.sleep(0.5)
        eventually("the reader has all", lambda: feed.counters()["queue.items"] == 0 and not feed._ready)
        time.sleep(0.5)
        last["counters"] = feed.counters()
        last["instruments"] = feed.instruments()
        last["books"] = [feed.book(i.security_id) for i in last["instruments"]]
        last["by_symbol"] = [feed.book(i.symbol) for i in last["instruments"]]
        last["tables"] = [feed.table(name) for name in ("books", "trades")]
    finally:
        feed.close()


ender = threading.Thread(target=end)
ender.start()
print("ready", flush=True)
items = list(feed)
ender.join()

kinds = {kind: [item for item in items if isinstance(item, kind)] for kind in (Book, Trade, Statistic, Gap, Recovery, Line)}
assert all(kinds.values()), {kind.__name__: len(all_of) for kind, all_of in kinds.items()}
counters = last["counters"]
assert counters["queue.dropped"] == 0
assert len(kinds[Gap]) == counters[f"feed_channel.{channel}.gaps"] >= 1, kinds[Gap]
assert sum(gap.last - gap.first + 1 for gap in kinds[Gap]) == counters[f"feed_channel.{channel}.lost_packets"]
assert kinds[Recovery][-1].phase == "end" and any(r.phase == "begin" and r.unsettled > 0 for r in kinds[Recovery])
assert {"IA", "IB"} <= {line.line for line in kinds[Line] if line.state == "up"}
assert counters["source.0.packets"] > counters[f"feed_channel.{channel}.packets"] > 0
assert all(item.channel == channel for item in items)
assert all(book.cause == "query" and book.is_good for book in last["books"])
assert [b.security_id for b in last["books"]] == [b.security_id for b in last["by_symbol"]] == [i.security_id for i in last["instruments"]]
assert all(i.tick and i.symbol and i.group for i in last["instruments"])
latest = {book.security_id: book for book in kinds[Book]}
for book in last["books"]:
    shown = latest[book.security_id]
    assert (book.bids, book.offers, book.rpt_seq) == (shown.bids, shown.offers, shown.rpt_seq), (book, shown)

# Tables outlive the feed; they have what the iterator had.
books, trades = last["tables"]
assert (len(books), len(trades)) == (len(kinds[Book]), len(kinds[Trade]))
assert "arrow_array_stream" in repr(books.__arrow_c_stream__())
try:
    import pyarrow
except ImportError:
    pass
else:
    for again in range(2):
        table = pyarrow.table(trades)
        assert table["price"].to_pylist() == [trade.price for trade in kinds[Trade]], again
    table = pyarrow.table(books)
    assert table["symbol"].to_pylist() == [book.symbol for book in kinds[Book]]
    assert table["bid1_quantity"].to_pylist() == [book.bids[0].quantity if book.bids else None for book in kinds[Book]]

# Closed: an error, and no crash.
assert feed.closed and feed.close() is None
for work in (
    feed.next,
    feed.counters,
    feed.instruments,
    feed.start,
    lambda: iter(feed),
    lambda: feed.book(1),
    lambda: feed.table("trades"),
):
    assert "closed" in str(raises(FeedError, work))

# Callbacks had every item, whatever one of them raised.
eventually("all called back", lambda: called.counters()["queue.items"] == 0)
time.sleep(0.2)
assert seen["trades"] == len(kinds[Trade]) == called.errors == len(logged), (seen, called.errors, len(logged))
assert seen["all"] > len(kinds[Trade]) + len(kinds[Statistic])
assert thread.is_alive()
called.close()
assert not thread.is_alive()

# Nobody read: the latest are there, the others were counted.
counters = slow.counters()
assert counters["queue.items"] == 10 and slow.dropped == counters["queue.dropped"] > 100, counters
assert counters["collected.books.rows"] <= 32 and counters["collected.books.dropped"] > 100, counters
kept = slow.table("books", clear=True)
assert 16 <= len(kept) <= 32 and len(slow.table("books")) == 0 and len(kept) > 0
rest = [slow.next(timeout=0) for _ in range(11)]
assert rest.pop() is None and all(isinstance(item, Book) for item in rest)
assert latest[rest[-1].security_id].bids == rest[-1].bids
slow.close()

print(
    json.dumps(
        [
            {
                "security_id": book.security_id,
                "rpt_seq": book.rpt_seq,
                "bids": [[level.price_e9, level.quantity, level.orders] for level in book.bids],
                "offers": [[level.price_e9, level.quantity, level.orders] for level in book.offers],
            }
            for book in last["books"]
        ]
    ),
    flush=True,
)
print("ok")
