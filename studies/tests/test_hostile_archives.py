"""Malicious archives and servers: bombs, members that leave their folder, endless answers.

``test_fetch`` tests which archives are refused; here are the bounds of memory and time.
"""

from __future__ import annotations

import contextlib
import gzip
import http.server
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from test_fetch import tar_gz

from dcfw_studies import fetch
from hostile_files import read_bounded

MB = 2**20


# -- bombs ---------------------------------------------------------------------------------------------------


def test_a_gzip_bomb_is_unpacked_only_up_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "MAX_UNPACKED", 4 * MB)
    bomb = gzip.compress(bytes(256 * MB), compresslevel=1)
    result = read_bounded(lambda: fetch.unpack(bomb, ".dat"), memory=16 * MB)
    assert isinstance(result, ValueError)
    assert "too large" in str(result)


def test_a_member_that_claims_to_be_large_is_refused_before_it_is_read() -> None:
    content = bytearray(gzip.decompress(tar_gz({"one1.dat": b"1 0 0"})))
    content[124:136] = b"77777777777\0"  # 8 GB
    content[148:156] = b"        "
    content[148:156] = b"%06o\0 " % sum(content[:512])
    result = read_bounded(lambda: fetch.unpack(gzip.compress(bytes(content)), ".dat"), memory=8 * MB)
    assert isinstance(result, ValueError)


@pytest.mark.parametrize("size", [-512, -1, 600, 2**62])
def test_a_member_of_a_size_that_is_not_there_is_a_clear_error(size: int) -> None:
    header = tarfile.TarInfo("one1.dat")
    header.size = size
    archive = gzip.compress(header.tobuf(tarfile.GNU_FORMAT) + b"1 0 0" + bytes(507))
    assert isinstance(read_bounded(lambda: fetch.unpack(archive, ".dat"), memory=8 * MB), ValueError)


@pytest.mark.parametrize(
    ("name", "kind", "content"),
    [
        ("../escape.dat", tarfile.REGTYPE, b"1 0 0"),
        ("/tmp/escape.dat", tarfile.REGTYPE, b"1 0 0"),
        ("escape.dat", tarfile.SYMTYPE, b"/etc/passwd"),
        ("escape.dat", tarfile.LNKTYPE, b"../../secret"),
        ("escape.dat", tarfile.CHRTYPE, b""),
        ("escape.dat", tarfile.FIFOTYPE, b""),
        ("..\\escape.dat", tarfile.REGTYPE, b"1 0 0"),
        ("escape.dat\0.png", tarfile.REGTYPE, b"1 0 0"),
    ],
)
def test_no_member_is_written_outside_the_folder_or_followed(
    name: str, kind: bytes, content: bytes, tmp_path: Path
) -> None:
    result = read_bounded(lambda: fetch.unpack(tar_gz({name: content}, kind), ".dat"), memory=8 * MB)
    # Anything but an error must be the content of a plain file under a plain name; nothing is written.
    assert isinstance(result, Exception) or result == {"escape": b"1 0 0"}


# -- servers -------------------------------------------------------------------------------------------------


Answer = Callable[[http.server.BaseHTTPRequestHandler], None]


@pytest.fixture
def serve() -> Iterator[Callable[[Answer], str]]:
    """``serve(answer)`` starts a server that answers every request with it, and returns its address."""
    running: list[tuple[http.server.ThreadingHTTPServer, threading.Thread]] = []

    def start(answer: Answer) -> str:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                with contextlib.suppress(OSError):  # the client has hung up
                    answer(self)

            def log_message(self, *_: Any) -> None:
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        running.append((server, thread))
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server, thread in running:
        server.shutdown()
        thread.join()
        server.server_close()


def fetched(url: str, folder: Path, **options: Any) -> Any:
    return read_bounded(
        lambda: fetch.fetch_qaplib(folder, url=url, allow_local=True, **options), memory=32 * MB, seconds=20.0
    )


def test_an_answer_without_an_end_is_cut_off(
    serve: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "MAX_ARCHIVE", 2 * MB)

    def endless(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.send_response(200)  # without a length
        handler.end_headers()
        while True:
            handler.wfile.write(bytes(65536))

    result = fetched(serve(endless), tmp_path / "q")
    assert isinstance(result, fetch.FetchError)
    assert "too large: more than" in str(result)


def test_a_length_that_is_too_large_or_absurd_is_not_believed(serve: Any, tmp_path: Path) -> None:
    def claims(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "9" * 15)
        handler.end_headers()

    result = fetched(serve(claims), tmp_path / "q")
    assert isinstance(result, fetch.FetchError)
    assert "too large" in str(result)


def test_a_server_that_falls_silent_is_left_after_the_time_out(serve: Any, tmp_path: Path) -> None:
    released = threading.Event()

    def silent(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        handler.wfile.write(b"x")
        released.wait(15.0)

    result = fetched(serve(silent), tmp_path / "q", timeout=0.2)
    released.set()
    assert isinstance(result, fetch.FetchError)
    assert "timed out" in str(result).lower() or "took more than" in str(result)


def test_a_server_that_drips_is_left_after_ten_times_the_time_out(serve: Any, tmp_path: Path) -> None:
    ended = threading.Event()

    def drips(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        while not ended.is_set():
            handler.wfile.write(b"x")
            handler.wfile.flush()
            time.sleep(0.02)

    result = fetched(serve(drips), tmp_path / "q", timeout=0.1)
    ended.set()
    assert isinstance(result, fetch.FetchError)
    assert "took more than 1 s" in str(result)


def test_headers_without_an_end_are_cut_off(serve: Any, tmp_path: Path) -> None:
    def headers(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            handler.wfile.write(b"X-More: " + b"x" * 1000 + b"\r\n")

    assert isinstance(fetched(serve(headers), tmp_path / "q"), fetch.FetchError)


@pytest.mark.parametrize("target", ["http://127.0.0.2/x", "ftp://127.0.0.1/x", "file:///etc/passwd", "//["])
def test_a_redirection_to_anything_but_https_is_refused(serve: Any, tmp_path: Path, target: str) -> None:
    def elsewhere(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.send_response(302)
        handler.send_header("Location", target)
        handler.end_headers()

    result = fetched(serve(elsewhere), tmp_path / "q", timeout=2.0)
    assert isinstance(result, fetch.FetchError)
    assert not (tmp_path / "q").exists()


def test_a_circle_of_redirections_ends(serve: Any, tmp_path: Path) -> None:
    def around(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.send_response(302)
        handler.send_header("Location", handler.path)
        handler.end_headers()

    assert isinstance(fetched(serve(around), tmp_path / "q"), fetch.FetchError)


def test_an_answer_that_breaks_off_is_not_taken_for_the_file(serve: Any, tmp_path: Path) -> None:
    def cut(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        handler.wfile.write(bytes(400))

    result = fetched(serve(cut), tmp_path / "q")
    assert isinstance(result, fetch.FetchError)
    assert "400 bytes read, 600 more expected" in str(result)
    assert not list(tmp_path.rglob("*.dat"))
