"""Certificates for servers of HTTPS."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

if TYPE_CHECKING:
    from pathlib import Path


def server_context(folder: Path, host: x509.GeneralName, *, valid_days: int = 30) -> ssl.SSLContext:
    """Return the context of a server whose certificate a new CA has signed.

    Args:
        folder: where `ca.pem`, the certificate of the CA, is written.
        host: the host that the server's certificate is for.
        valid_days: how long it is valid; negative: it has expired.
    """
    ca_key, server_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kafkalog test CA")])
    end = datetime.now(UTC) + timedelta(days=valid_days)

    def certificate(key: ec.EllipticCurvePrivateKey, name: x509.Name, *, is_ca: bool) -> bytes:
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(end - timedelta(days=365))
            .not_valid_after(datetime.now(UTC) + timedelta(days=30) if is_ca else end)
            .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
        )
        if not is_ca:
            builder = builder.add_extension(x509.SubjectAlternativeName([host]), critical=False)
        return builder.sign(ca_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    (folder / "ca.pem").write_bytes(certificate(ca_key, issuer, is_ca=True))
    (folder / "server.pem").write_bytes(
        certificate(server_key, x509.Name([]), is_ca=False)
        + server_key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem")
    return context
