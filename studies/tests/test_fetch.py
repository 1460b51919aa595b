"""Fetching QAPLIB from a local server that answers correctly, wrongly or maliciously."""

import functools
import gzip
import http.server
import io
import socket
import tarfile
import threading
from contextlib import suppress

import pytest

from dcfw import data, qap
from dcfw_studies import fetch
from hostile_files import read_bounded

DAT = {"one1": b"1 0 0\n", "two2": b" 2\n\n0 1 1 0\n0 3 3 0\n"}
SLN = {"one1": b"1 0\n1\n", "two2": b"2 6 2 1"}


def tar_gz(files, kind=tarfile.REGTYPE):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.type = kind
            if kind == tarfile.REGTYPE:
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
            else:
                member.linkname = content.decode()
                archive.addfile(member)
    return buffer.getvalue()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        if self.path.startswith("/nonsense/"):
            self.wfile.write(b"no HTTP at all\r\n\r\n")
        elif self.path.startswith("/away/"):
            self.send_response(302)
            self.send_header("Location", "http://example.invalid" + self.path)
            self.end_headers()
        elif self.path.startswith("/moved/"):
            self.send_response(302)
            self.send_header("Location", self.path.removeprefix("/moved"))
            self.send_header("Content-Length", str(10**17))  # must not be allocated
            self.end_headers()
        else:
            super().do_GET()


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A local copy of a two-instance QAPLIB; `site(dat, sln)` puts archives there and returns its address."""
    monkeypatch.setattr(
        fetch, "checksums", lambda: {name: fetch.checksum(text) for name, text in DAT.items()}
    )
    root = tmp_path / "www"
    for folder in ("data.d", "soln.d"):
        (root / folder).mkdir(parents=True)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(root)))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()

    def put(dat=None, sln=None):
        dat = tar_gz({f"qapdata/{name}.dat": text for name, text in DAT.items()}) if dat is None else dat
        sln = tar_gz({f"{name}.sln": text for name, text in SLN.items()}) if sln is None else sln
        (root / "data.d/qapdata.tar.gz").write_bytes(dat)
        (root / "soln.d/qapsoln.tar.gz").write_bytes(sln)
        return f"http://127.0.0.1:{server.server_port}"

    yield put
    server.shutdown()
    thread.join()
    server.server_close()


ENDLESS = {
    "a line of the header": (b"HTTP/1.1 200 OK\r\nX: ", b"a"),
    "answers before the answer": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "the length of a chunk": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", b"a"),
    "content": (b"HTTP/1.1 200 OK\r\n\r\n", b"a"),
}


@pytest.mark.parametrize("what", ENDLESS)
def test_a_server_that_sends_a_byte_at_a_time_cannot_hold_a_download_beyond_its_deadline(tmp_path, what):
    start, more = ENDLESS[what]
    ended = threading.Event()

    class Slow(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def do_GET(self):
            with suppress(ConnectionError):
                self.wfile.write(start)
                while not ended.wait(0.02):
                    self.wfile.write(more)

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Slow) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            url = f"http://127.0.0.1:{server.server_port}"
            with pytest.raises(fetch.FetchError, match=r"the download took more than 0\.5 s"):
                fetch.fetch_qaplib(tmp_path / "q", url=url, timeout=0.05, allow_local=True)
        finally:
            ended.set()
            server.shutdown()
            thread.join()


def listing(folder):
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_fetched_instances_can_be_loaded(site, tmp_path, monkeypatch):
    monkeypatch.setenv("DCFW_DATA", str(tmp_path / "mine"))
    folder = fetch.fetch_qaplib(url=site(), allow_local=True)
    assert folder == tmp_path / "mine" / "qaplib" == data.find("qaplib")
    assert listing(folder) == ["one1.dat", "one1.sln", "two2.dat", "two2.sln"]
    assert (folder / "two2.dat").read_bytes() == DAT["two2"]
    assert qap.load("two2").best == 6
    assert fetch.fetch_qaplib(url=site() + "/", allow_local=True) == folder  # again, over the old files


def test_downloads_at_one_time_into_one_folder_leave_whole_files_alone(site, tmp_path, monkeypatch):
    monkeypatch.setenv("DCFW_DATA", str(tmp_path / "mine"))
    url, failures = site(), []

    def work():
        try:
            fetch.fetch_qaplib(url=url, allow_local=True)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert listing(tmp_path / "mine" / "qaplib") == ["one1.dat", "one1.sln", "two2.dat", "two2.sln"]
    assert all((tmp_path / "mine/qaplib" / f"{name}.dat").read_bytes() == text for name, text in DAT.items())


def test_a_linked_folder_is_filled_and_a_link_in_the_place_of_a_file_is_not_followed(
    site, tmp_path, monkeypatch
):
    """A cache folder may be a link; a link inside it must not redirect a file out of it."""
    real, victim = tmp_path / "disk", tmp_path / "victim.txt"
    real.mkdir()
    victim.write_text("mine")
    (tmp_path / "mine").symlink_to(real)
    (real / "qaplib").mkdir()
    (real / "qaplib" / "two2.dat").symlink_to(victim)
    monkeypatch.setenv("DCFW_DATA", str(tmp_path / "mine"))
    fetch.fetch_qaplib(url=site(), allow_local=True)
    assert victim.read_text() == "mine"
    assert (real / "qaplib" / "two2.dat").read_bytes() == DAT["two2"]
    assert qap.load("two2").best == 6


def test_white_space_does_not_change_a_checksum_but_a_number_does():
    assert fetch.checksum(b"2\r\n 0  1\n") == fetch.checksum(b"2 0 1")
    assert fetch.checksum(b"2 0 2") != fetch.checksum(b"2 0 1")
    assert fetch.checksum(b"2 0 x") is None
    assert fetch.checksum(b"20 1") != fetch.checksum(b"2 01")


def test_the_shipped_checksums_are_those_of_the_real_files():
    try:
        folder = data.find("qaplib")
    except FileNotFoundError as error:
        pytest.skip(f"needs the QAPLIB files: {error}")
    assert {
        file.stem: fetch.checksum(file.read_bytes()) for file in folder.glob("*.dat")
    } == fetch.checksums()


@pytest.mark.parametrize("damage", [b"1 0 7\n", b"1 0 zero", b""])
def test_a_corrupted_instance_is_reported_and_not_kept(site, tmp_path, damage):
    archive = tar_gz({"one1.dat": damage, "two2.dat": DAT["two2"]})
    with pytest.raises(
        fetch.FetchError, match=r"one1\.dat: its content is not the known one.*By hand"
    ) as caught:
        fetch.fetch_qaplib(tmp_path / "q", url=site(archive), allow_local=True)
    assert str(tmp_path / "q") in str(caught.value)
    assert listing(tmp_path / "q") == ["one1.sln", "two2.dat", "two2.sln"]


def test_a_missing_instance_is_reported(site, tmp_path):
    with pytest.raises(fetch.FetchError, match=r"one1\.dat: not in the archive"):
        fetch.fetch_qaplib(tmp_path / "q", url=site(tar_gz({"two2.dat": DAT["two2"]})), allow_local=True)


def test_only_known_instances_and_sound_solutions_are_written(site, tmp_path):
    dat = tar_gz(
        {**{f"{name}.dat": text for name, text in DAT.items()}, "evil.dat": b"1 0 0", "run.sh": b"rm"}
    )
    sln = tar_gz({"one1.sln": b"1 0 5 6", "two2.sln": SLN["two2"], "evil.sln": b"1 0 1"})
    fetch.fetch_qaplib(tmp_path / "q", url=site(dat, sln), allow_local=True)
    assert listing(tmp_path / "q") == ["one1.dat", "two2.dat", "two2.sln"]


@pytest.mark.parametrize("name", ["../../outside1.dat", "/tmp/outside1.dat", "a/../../outside1.dat"])
def test_a_member_that_leaves_its_folder_is_refused(site, tmp_path, name):
    archive = tar_gz({**{f"{name}.dat": text for name, text in DAT.items()}, name: b"1 0 0"})
    with pytest.raises(fetch.FetchError, match="outside its folder"):
        fetch.fetch_qaplib(tmp_path / "deep" / "q", url=site(archive), allow_local=True)
    assert not list(tmp_path.rglob("outside1*"))
    assert listing(tmp_path / "deep" / "q") == []


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE])
def test_links_in_an_archive_are_ignored(site, tmp_path, kind):
    with pytest.raises(fetch.FetchError, match=r"no \.dat files"):
        fetch.fetch_qaplib(
            tmp_path / "q", url=site(tar_gz({"one1.dat": b"/etc/passwd"}, kind)), allow_local=True
        )
    assert listing(tmp_path / "q") == []


@pytest.mark.parametrize("limit", ["MAX_ARCHIVE", "MAX_UNPACKED", "MAX_FILE"])
def test_an_archive_or_file_that_is_too_large_is_refused(site, tmp_path, monkeypatch, limit):
    monkeypatch.setattr(fetch, limit, {"MAX_ARCHIVE": 50, "MAX_UNPACKED": 1000, "MAX_FILE": 10}[limit])
    with pytest.raises(fetch.FetchError, match="too large"):
        fetch.fetch_qaplib(tmp_path / "q", url=site(), allow_local=True)
    assert listing(tmp_path / "q") == []


@pytest.mark.parametrize(
    ("archive", "message"),
    [
        (b"<html>moved</html>", "damaged"),
        (gzip.compress(b"not a tar archive" * 100), "damaged"),
        (tar_gz({"one1.dat": b"1 0 0"})[:-30], "damaged|cut short"),
        (gzip.compress(b""), "damaged|no .dat files"),
    ],
    ids=["text", "no tar", "cut", "empty"],  # gzip stores the time, so bytes are no stable ids
)
def test_a_file_that_is_not_an_archive_is_refused(site, tmp_path, archive, message):
    with pytest.raises(fetch.FetchError, match=message):
        fetch.fetch_qaplib(tmp_path / "q", url=site(archive), allow_local=True)


def test_without_a_network_the_error_says_how_to_do_it_by_hand(tmp_path, monkeypatch):
    def no_network(*_, **__):
        raise socket.gaierror("no network")

    monkeypatch.setattr(socket, "getaddrinfo", no_network)
    with pytest.raises(fetch.FetchError, match="no network") as caught:
        fetch.fetch_qaplib(tmp_path / "q", timeout=1)
    text = str(caught.value)
    assert "By hand" in text
    assert str(tmp_path / "q") in text
    assert all(mirror[0] in text for mirror in fetch.QAPLIB_MIRRORS)


def test_a_missing_file_on_the_server_is_reported(site, tmp_path):
    with pytest.raises(fetch.FetchError, match="404"):
        fetch.fetch_qaplib(tmp_path / "q", url=site() + "/nowhere", allow_local=True)


def test_a_server_that_does_not_speak_http_is_reported(site, tmp_path):
    with pytest.raises(fetch.FetchError, match="no HTTP at all"):
        fetch.fetch_qaplib(tmp_path / "q", url=site() + "/nonsense", allow_local=True)


def test_a_mirror_that_fails_is_followed_by_the_next(site, tmp_path, monkeypatch):
    good = site()
    pairs = tuple(
        (f"{base}/data.d/qapdata.tar.gz", f"{base}/soln.d/qapsoln.tar.gz")
        for base in (good + "/nowhere", good)
    )
    monkeypatch.setattr(fetch, "QAPLIB_MIRRORS", pairs)
    assert len(listing(fetch.fetch_qaplib(tmp_path / "q", allow_local=True))) == 4


@pytest.mark.parametrize("url", ["http://example.org", "ftp://example.org", "file:///etc", "example.org"])
def test_only_https_is_accepted(tmp_path, url):
    for allow_local in (False, True):
        with pytest.raises(ValueError, match="https://"):
            fetch.fetch_qaplib(tmp_path / "q", url=url, allow_local=allow_local)


def test_a_local_address_needs_permission_and_redirection_elsewhere_is_refused(site, tmp_path):
    with pytest.raises(ValueError, match="https://"):
        fetch.fetch_qaplib(tmp_path / "q", url=site())
    with pytest.raises(fetch.FetchError, match=r"No connection adapters .*http://example\.invalid"):
        fetch.fetch_qaplib(tmp_path / "q", url=site() + "/away", allow_local=True)


def test_a_redirection_is_followed_without_reading_what_comes_with_it(site, tmp_path):
    fetch.fetch_qaplib(tmp_path / "q", url=site() + "/moved", allow_local=True)
    assert len(listing(tmp_path / "q")) == 4


def test_a_folder_that_cannot_be_written_to_is_reported(site, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(fetch.FetchError, match="could not be written to"):
        fetch.fetch_qaplib(tmp_path / "file" / "q", url=site(), allow_local=True)


def test_all_public_mirrors_are_https():
    assert all(address.startswith("https://") for pair in fetch.QAPLIB_MIRRORS for address in pair)


@pytest.mark.parametrize(
    "entries", [b"0 2000000000", b"1 2000000000", b"0 " + b"9" * 30, b"-" + b"9" * 30 + b" 1"]
)
def test_a_solution_with_an_absurd_entry_is_left_out_and_costs_nothing(site, tmp_path, entries):
    url = site(sln=tar_gz({"one1.sln": SLN["one1"], "two2.sln": b"2 5 " + entries}))
    found = read_bounded(
        lambda: listing(fetch.fetch_qaplib(tmp_path / "q", url=url, allow_local=True)), memory=2**24
    )
    assert found == ["one1.dat", "one1.sln", "two2.dat"]


@pytest.mark.parametrize("text", [b"2 6 2 1", b"2 6 0 1", b"1 0 1"])
def test_a_permutation_counted_from_0_or_1_is_a_solution(text):
    assert fetch._is_solution(text)


@pytest.mark.parametrize("text", [b"", b"2 6", b"2 6 1", b"2 6 1 1", b"2 6 2 3", b"2 6 1 x"])
def test_anything_else_is_not_a_solution(text):
    assert not fetch._is_solution(text)
