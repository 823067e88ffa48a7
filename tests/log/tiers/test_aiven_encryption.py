"""How Aiven's tiered storage plugin encrypts."""

from __future__ import annotations

import pytest

from native_log.log.tiers.layouts.aiven import parse_manifest
from native_log.log.tiers.layouts.aiven_encryption import EncryptionError, decrypt, decrypt_data_key
from tests.builders.golden_tiered import GOLDEN_TIERED

pytest.importorskip("cryptography")

FOLDER = GOLDEN_TIERED / "aiven-zstd-aes"
MANIFEST = min(FOLDER.glob("tier/**/*.rsm-manifest"))
ENCRYPTION = parse_manifest(MANIFEST.read_bytes()).encryption
assert ENCRYPTION is not None
OWN, OTHER = (f"key{number}" for number in ((1, 2) if ENCRYPTION.key_id == "key1" else (2, 1)))


def private_key(name: str) -> bytes:
    return (FOLDER / "keys" / f"{name}.private.pem").read_bytes()


def test_a_data_key_and_a_chunk() -> None:
    key = decrypt_data_key(ENCRYPTION.data_key, private_key(OWN))
    assert len(key) == 32
    manifest = parse_manifest(MANIFEST.read_bytes())
    chunk = MANIFEST.with_suffix(".log").read_bytes()[: manifest.chunks.positions[1]]
    plain = decrypt(chunk, key, ENCRYPTION.aad)
    assert len(plain) == len(chunk) - 12 - 16
    assert plain[:4] == b"\x28\xb5\x2f\xfd"
    for damaged in (chunk[:-1], chunk[:5], b"", bytes([chunk[0] ^ 1]) + chunk[1:]):
        with pytest.raises(EncryptionError):
            decrypt(damaged, key, ENCRYPTION.aad)
    with pytest.raises(EncryptionError):
        decrypt(chunk, key, b"other")


@pytest.mark.parametrize("data_key", [ENCRYPTION.data_key, b"", b"\xff" * 256, b"\0" * 256, b"\1"])
def test_another_key(data_key: bytes) -> None:
    with pytest.raises(EncryptionError, match="another key"):
        decrypt_data_key(data_key, private_key(OTHER))


@pytest.mark.parametrize("pem", [b"", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"])
def test_no_key(pem: bytes) -> None:
    with pytest.raises(EncryptionError, match="expected an RSA key"):
        decrypt_data_key(ENCRYPTION.data_key, pem)
