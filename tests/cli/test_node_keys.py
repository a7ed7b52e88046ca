"""Keys of a deployment, judged by Python's ssl, by cryptography's verifier and by Flower."""

from __future__ import annotations

import ssl
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError
from flwr.cli.supernode.register import try_load_public_key
from flwr.supercore.primitives.asymmetric import public_key_to_bytes

from fedgame.cli.node_keys import KeyFolder, make_keys
from fedgame.errors import ConfigError


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> KeyFolder:
    return make_keys(tmp_path_factory.mktemp("keys") / "new", 2, ["superlink", "10.1.2.3"])


def shake_hands(keys: KeyFolder, trusted: Path, host: str) -> None:
    """Let a client that trusts one authority connect to the server, in memory."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(keys.certificate, keys.key)
    client = ssl.create_default_context(cafile=trusted)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname=host),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue


@pytest.mark.parametrize("host", ["superlink", "localhost", "127.0.0.1", "10.1.2.3"])
def test_a_client_that_trusts_the_authority_connects(keys: KeyFolder, host: str) -> None:
    shake_hands(keys, keys.ca_certificate, host)


def test_another_name_or_another_authority_is_refused(keys: KeyFolder, tmp_path: Path) -> None:
    other = make_keys(tmp_path / "other", 1, ())
    with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
        shake_hands(keys, keys.ca_certificate, "elsewhere")
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(keys, other.ca_certificate, "localhost")


def test_the_chain_meets_the_rules_of_the_web(keys: KeyFolder) -> None:
    ca, leaf = (
        x509.load_pem_x509_certificate(path.read_bytes())
        for path in (keys.ca_certificate, keys.certificate)
    )
    policy = PolicyBuilder().store(Store([ca])).time(datetime.now(UTC))
    assert policy.build_server_verifier(x509.DNSName("superlink")).verify(leaf, [])[-1] == ca
    with pytest.raises(VerificationError):
        policy.build_server_verifier(x509.DNSName("elsewhere")).verify(leaf, [])


def test_flower_reads_the_key_pair_of_a_node(keys: KeyFolder) -> None:
    public = [try_load_public_key(keys.node_public_key(node)) for node in range(2)]
    for node in range(2):
        private = load_ssh_private_key(keys.node_key(node).read_bytes(), None)
        assert isinstance(private, ec.EllipticCurvePrivateKey)
        assert private.curve.name == "secp384r1"
        assert public_key_to_bytes(private.public_key()) == public[node]
    assert public[0] != public[1]


def test_only_the_owner_can_read_and_the_authority_cannot_sign_again(keys: KeyFolder) -> None:
    files = {path.name: path for path in keys.folder.iterdir()}
    names = {"ca.crt", "server.crt", "server.key", "node-0", "node-0.pub", "node-1", "node-1.pub"}
    assert set(files) == names
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in files.values())
    assert stat.S_IMODE(keys.folder.stat().st_mode) == 0o700


def test_no_file_is_overwritten(tmp_path: Path) -> None:
    keys = make_keys(tmp_path, 1, ())
    before = keys.key.read_bytes()
    keys.ca_certificate.unlink()
    with pytest.raises(ConfigError, match=r"server\.crt is there already"):
        make_keys(tmp_path, 1, ())
    assert keys.key.read_bytes() == before
    assert not keys.ca_certificate.exists()


@pytest.mark.parametrize("host", ["", "a b", "http://host", "host:8000", "*.org"])
def test_what_is_no_host_is_refused(tmp_path: Path, host: str) -> None:
    with pytest.raises(ConfigError, match="must be a host name or an IP address"):
        make_keys(tmp_path / "keys", 1, [host])
    assert not (tmp_path / "keys").exists()


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="must be a folder that can be written"):
        make_keys(tmp_path / "file" / "keys", 1, ())
