"""Keys of a deployment: the server's TLS certificate, and one key pair for each node.

Flower's SuperLink and SuperNodes want PEM files for TLS and P-384 keys in OpenSSH's format for the
authentication of nodes.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedgame.errors import ConfigError

LOCAL_HOSTS = ("localhost", "127.0.0.1")
"""Names under which a server is reached from its own machine."""

_HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_-]*\.)*[A-Za-z0-9_-]*", re.ASCII)
_VALID = timedelta(days=365)
_CLOCK_SKEW = timedelta(hours=1)


@dataclass(frozen=True)
class KeyFolder:
    """Where the keys of a deployment lie."""

    folder: Path

    @property
    def ca_certificate(self) -> Path:
        """The certificate that everybody trusts."""
        return self.folder / "ca.crt"

    @property
    def certificate(self) -> Path:
        """The server's certificate."""
        return self.folder / "server.crt"

    @property
    def key(self) -> Path:
        """The server's private key."""
        return self.folder / "server.key"

    def node_key(self, node: int) -> Path:
        """Return the private key of a node."""
        return self.folder / f"node-{node}"

    def node_public_key(self, node: int) -> Path:
        """Return the public key of a node."""
        return self.folder / f"node-{node}.pub"


def make_keys(folder: Path, nodes: int, hosts: Sequence[str]) -> KeyFolder:
    """Make all keys of a deployment; every file has mode 0600, and none is overwritten.

    The authority's private key signs the server's certificate and is thrown away: nobody can sign
    another one, and a new certificate needs a new authority.

    Args:
        folder: Where the files go; made if it is absent.
        nodes: Number of key pairs of nodes.
        hosts: Names and addresses under which the server is reached, beside LOCAL_HOSTS.

    Raises:
        ConfigError: A file is there already, the folder cannot be written, or a host is no name.
    """
    authority, server = (ec.generate_private_key(ec.SECP384R1()) for _ in range(2))
    ca = _authority(authority)
    certificate = _certificate(server, ca, authority, (*hosts, *LOCAL_HOSTS))
    keys = KeyFolder(folder)
    files = {
        keys.ca_certificate: ca.public_bytes(Encoding.PEM),
        keys.certificate: certificate.public_bytes(Encoding.PEM),
        keys.key: _private(server, PrivateFormat.PKCS8),
    }
    for node in range(nodes):
        pair = ec.generate_private_key(ec.SECP384R1())
        public = pair.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
        files[keys.node_key(node)] = _private(pair, PrivateFormat.OpenSSH)
        files[keys.node_public_key(node)] = public + b"\n"
    _write(folder, files)
    return keys


def _write(folder: Path, files: dict[Path, bytes]) -> None:
    taken = [path for path in files if path.exists()]
    if taken:
        raise ConfigError("DIR", str(folder), f"{taken[0].name} is there already; keys are kept")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path, content in files.items():
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
    except OSError as error:
        reason = f"must be a folder that can be written ({error.strerror})"
        raise ConfigError("DIR", str(folder), reason) from error


def _private(key: ec.EllipticCurvePrivateKey, form: PrivateFormat) -> bytes:
    return key.private_bytes(Encoding.PEM, form, NoEncryption())


def _authority(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    name = _name("fedgame deployment CA")
    builder = _builder(name, name, key)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(sign_certificates=True), critical=True)
    return builder.sign(key, hashes.SHA384())


def _certificate(
    key: ec.EllipticCurvePrivateKey,
    ca: x509.Certificate,
    authority: ec.EllipticCurvePrivateKey,
    hosts: Sequence[str],
) -> x509.Certificate:
    names = x509.SubjectAlternativeName([_host(host) for host in dict.fromkeys(hosts)])
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key())
    builder = _builder(_name("fedgame SuperLink"), ca.subject, key)
    builder = builder.add_extension(
        x509.BasicConstraints(ca=False, path_length=None), critical=True
    )
    builder = builder.add_extension(_usage(sign_certificates=False), critical=True)
    builder = builder.add_extension(names, critical=False)
    builder = builder.add_extension(issuer, critical=False)
    server = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    return builder.add_extension(server, critical=False).sign(authority, hashes.SHA384())


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + _VALID)
        .add_extension(identifier, critical=False)
    )


def _usage(*, sign_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not sign_certificates,
        key_cert_sign=sign_certificates,
        crl_sign=sign_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        if _HOST_NAME.fullmatch(host) is None:
            allowed = "must be a host name or an IP address"
            raise ConfigError("--host", host, allowed) from None
    return x509.DNSName(host)
