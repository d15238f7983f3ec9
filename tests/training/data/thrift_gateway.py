"""A Thrift server that speaks HBase's interface over tables in memory, as ``hbase thrift start`` does."""

# ruff: noqa: N802, A002 - names of the interface

from __future__ import annotations

import contextlib
import importlib.resources
import socket
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

happybase = pytest.importorskip("happybase")
thriftpy2 = pytest.importorskip("thriftpy2")


class Gateway:
    """Tables: for each name its rows by key, and of each row the cells by column.

    Attributes:
        delay_s: How long each answer takes.
        calls: Names of the calls, in order.
        asked: Numbers of rows of each ``getRowsWithColumns``.
        fail_after: So many further calls are answered; None for all.
    """

    def __init__(self, tables: dict[bytes, dict[bytes, dict[bytes, bytes]]], interface: object) -> None:
        self.tables = tables
        self.delay_s = 0.0
        self.calls: list[str] = []
        self.asked: list[int] = []
        self.fail_after: int | None = None
        self.port = 0
        self._interface = interface
        self._scanners: dict[int, list] = {}
        self._lock = threading.Lock()

    def scannerOpenWithScan(self, tableName, scan, attributes):
        self._called("scannerOpenWithScan")
        assert scan.filterString == b"KeyOnlyFilter()"
        rows = []
        for key in sorted(self._table(tableName)):
            inside = (not scan.startRow or key >= scan.startRow) and (not scan.stopRow or key < scan.stopRow)
            if inside and any(column in self._table(tableName)[key] for column in scan.columns):
                rows.append(self._row(key, dict.fromkeys(scan.columns, b"")))
        with self._lock:
            self._scanners[len(self._scanners)] = rows
            return len(self._scanners) - 1

    def scannerGetList(self, id, nbRows):
        self._called("scannerGetList")
        rows = self._scanners[id][:nbRows]
        del self._scanners[id][:nbRows]
        return rows

    def scannerClose(self, id):
        self._called("scannerClose")

    def getRowsWithColumns(self, tableName, rows, columns, attributes):
        self._called("getRowsWithColumns")
        self.asked.append(len(rows))
        table = self._table(tableName)
        wanted = {
            key: {name: table[key][name] for name in columns if name in table[key]}
            for key in rows
            if key in table
        }
        return [self._row(key, cells) for key, cells in wanted.items() if cells]

    def _row(self, key, cells):
        thrift = self._interface
        return thrift.TRowResult(
            row=key, columns={name: thrift.TCell(value=value, timestamp=1) for name, value in cells.items()}
        )

    def _table(self, name):
        if name not in self.tables:
            raise self._interface.IOError(message=b"TableNotFoundException: " + name)
        return self.tables[name]

    def _called(self, name):
        with self._lock:
            self.calls.append(name)
            if self.fail_after is not None:
                self.fail_after -= 1
                if self.fail_after < 0:
                    raise ConnectionResetError("the gateway is gone")
        time.sleep(self.delay_s)


@contextmanager
def gateway(tables, protocol: str = "binary") -> Iterator[Gateway]:
    """Start a server that speaks one of Thrift's protocols."""
    from thriftpy2.protocol import TBinaryProtocolFactory, TCompactProtocolFactory
    from thriftpy2.rpc import make_server

    with importlib.resources.as_file(importlib.resources.files("happybase") / "Hbase.thrift") as path:
        interface = thriftpy2.load(str(path), "Hbase_thrift")
    handler = Gateway(tables, interface)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        handler.port = free.getsockname()[1]
    protocols = {"binary": TBinaryProtocolFactory, "compact": TCompactProtocolFactory}
    server = make_server(
        interface.Hbase,
        handler,
        "127.0.0.1",
        handler.port,
        proto_factory=protocols[protocol](),
        client_timeout=None,
    )
    server.daemon = True
    thread = threading.Thread(target=server.serve, daemon=True)
    thread.start()
    for _ in range(200):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", handler.port), 1):
            break
        time.sleep(0.01)
    try:
        yield handler
    finally:
        server.close()
        server.trans.close()
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", handler.port), 1):
            pass  # wakes what accepts
        thread.join(5)
