"""Captured market data: `test_feed.py CAPTURE BOOKS TRADES`, where the last two are what the library writes as CSV. Prints `ok`."""

import csv
import os
import shutil
import sys
import tempfile
from decimal import Decimal

from barewire.feed import Book, Capture, FeedError, Live, Statistic, Table, Trade
from expect import raises

capture, books_csv, trades_csv = sys.argv[1:]


def read(name: str) -> list[dict[str, str]]:
    with open(name, newline="") as file:
        return list(csv.DictReader(file))


books, trades = read(books_csv), read(trades_csv)
assert len(books) > 500 and len(trades) > 10, (len(books), len(trades))
items = list(Capture(capture))
own_books = [item for item in items if isinstance(item, Book)]
own_trades = [item for item in items if isinstance(item, Trade)]
statistics = [item for item in items if isinstance(item, Statistic)]
assert len(own_books) == len(books) and len(own_trades) == len(trades) and statistics
assert len(items) == len(own_books) + len(own_trades) + len(statistics)


def head(item, row: dict[str, str]) -> None:
    assert [item.seq_num, item.sending_time_ns, item.stamp_ns, item.transact_time_ns, item.security_id] == [
        int(row[key]) for key in ("seq_num", "sending_time_ns", "stamp_ns", "transact_time_ns", "security_id")
    ]
    assert (item.symbol, item.stamp_source) == (row["symbol"], row["stamp_source"])


for item, row in zip(own_books, books, strict=True):
    head(item, row)
    assert (item.state, item.cause, item.rpt_seq) == (row["state"], row["cause"], int(row["rpt_seq"]))
    for name, side in (("bid", item.bids), ("offer", item.offers)):
        for number in range(1, 11):
            price, quantity = row[f"{name}{number}_price"], row[f"{name}{number}_quantity"]
            level = side[number - 1] if number <= len(side) else None
            assert (level is None) == (price == "")
            assert level is None or (level.price, level.quantity) == (Decimal(price), int(quantity))
for item, row in zip(own_trades, trades, strict=True):
    head(item, row)
    assert (item.price, item.quantity, item.aggressor or "") == (Decimal(row["price"]), int(row["quantity"]), row["aggressor"])

assert all(isinstance(item, Trade) for item in Capture(capture, items=["trades"]))
with Capture(capture) as first:
    next(iter(first))
assert list(first) == [], "a capture that was closed is at its end"
assert "books" in str(raises(FeedError, Capture, capture, items=["candles"]))
assert "no packet" in str(raises(FeedError, lambda: list(Capture(capture, channel=7, udp_port=9))))
raises(FeedError, lambda: list(Capture(os.devnull)))
raises(FeedError, lambda: list(Capture("/nowhere.pcap")))

# A configuration that records: what is read is not written.
with tempfile.TemporaryDirectory() as folder:
    recorded = shutil.copy(capture, folder)
    lines = [("I", "A", 1), ("N", "A", 2), ("S", "A", 3), ("I", "B", 4), ("N", "B", 5), ("S", "B", 6)]
    connection = "[[channel.connection]]\nfeed = '{}'\nside = '{}'\ngroup = '239.90.133.{}'\nudp_port = {}\n"
    text = "".join(connection.format(feed, side, n, 19009 + n) for feed, side, n in lines)
    config = os.path.join(folder, "feed.toml")
    with open(config, "w") as file:
        file.write(f"[[channel]]\nid = 901\n{text}[record]\npath = '{os.path.basename(recorded)}'\n")
    assert len(list(Capture(recorded, config=config))) == len(items)
    assert os.path.getsize(recorded) == os.path.getsize(capture)

# A capture as the port of a handler: it ends by itself, and its books can be asked for until the feed is closed.
with Live(port=f"pcap:{capture}", items=["trades", "statistics"], collect=["trades"]) as live:
    played = list(live)
    assert live.next() is None and list(live) == []
    same = [(item.seq_num, item.security_id, item.price, item.quantity) for item in own_trades]
    assert [(i.seq_num, i.security_id, i.price, i.quantity) for i in played if isinstance(i, Trade)] == same
    assert len(live.table("trades")) == len(own_trades)
    last = {book.security_id: book for book in own_books}
    assert last and all(live.book(security_id).bids == book.bids for security_id, book in last.items())
assert "closed" in str(raises(FeedError, live.counters))

try:
    import pyarrow
except ImportError:
    # The stream is made all the same.
    assert "arrow_array_stream" in repr(Table(capture, "books").__arrow_c_stream__())
else:
    table = pyarrow.table(Table(capture, "books"))
    assert table.num_rows == len(own_books)
    assert table["symbol"].to_pylist() == [item.symbol for item in own_books]
    assert table["bid1_price"].to_pylist() == [item.bids[0].price if item.bids else None for item in own_books]
    assert table["offer10_quantity"].to_pylist() == [item.offers[9].quantity if len(item.offers) > 9 else None for item in own_books]
    assert table["sending_time"].cast("int64").to_pylist() == [item.sending_time_ns for item in own_books]
    table = pyarrow.table(Table(capture, "trades"))
    assert table["price"].to_pylist() == [item.price for item in own_trades]
    assert table["aggressor"].to_pylist() == [item.aggressor for item in own_trades]
    table = pyarrow.table(Table(capture, "statistics"))
    assert table["kind"].to_pylist() == [item.kind for item in statistics]
    assert table["quantity"].to_pylist() == [item.quantity for item in statistics]
    print("with pyarrow", file=sys.stderr)
print("ok")
