"""Undo the encryption of Aiven's tiered storage plugin (RsaEncryptionProvider, AesEncryptionProvider)."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateNumbers

_HASH_BYTES = 64
_IV_BYTES = 12


class EncryptionError(ValueError):
    """Bytes that cannot be decrypted."""


def decrypt(data: bytes, key: bytes, aad: bytes) -> bytes:
    """Return the content of a message of AES-256-GCM: initialization vector, data, tag.

    Raises EncryptionError, ModuleNotFoundError.
    """
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    try:
        plain: bytes = AESGCM(key).decrypt(data[:_IV_BYTES], data[_IV_BYTES:], aad)
        return plain
    except (InvalidTag, ValueError):
        raise EncryptionError("the bytes were changed, or encrypted with another key") from None


def decrypt_data_key(encrypted: bytes, private_key: bytes) -> bytes:
    """Return a data key that was encrypted by RSA with OAEP, SHA3-512 and an empty label.

    The package cryptography does not have OAEP with SHA3-512. So only its key is used, and the padding is
    undone here (RFC 8017, 7.1.2).

    Args:
        encrypted: the encrypted key.
        private_key: the RSA key, PKCS#8 in PEM.

    Raises EncryptionError, ModuleNotFoundError.
    """
    numbers = _rsa_numbers(private_key)
    modulus = numbers.public_numbers.n
    size = (modulus.bit_length() + 7) // 8
    number = int.from_bytes(encrypted, "big")
    if len(encrypted) != size or number >= modulus:
        raise EncryptionError("the data key was encrypted with another key")
    # Using the primes is four times as fast as using the private exponent (RFC 8017, 5.1.2).
    message = pow(number, numbers.dmq1, numbers.q)
    message += (pow(number, numbers.dmp1, numbers.p) - message) * numbers.iqmp % numbers.p * numbers.q
    return _remove_padding(message.to_bytes(size, "big"))


@lru_cache(maxsize=16)
def _rsa_numbers(private_key: bytes) -> RSAPrivateNumbers:
    """Return the numbers of a key in PEM. They are cached: checking a key takes longer than using it."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(private_key, None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise EncryptionError(f"expected an RSA key without a password in PEM, found none: {error}") from None
    if not isinstance(key, RSAPrivateKey):
        raise EncryptionError("expected an RSA key, found one of another kind")
    return key.private_numbers()


def _remove_padding(message: bytes) -> bytes:
    seed_mask = _mask(message[1 + _HASH_BYTES :], _HASH_BYTES)
    seed = _xor(message[1 : 1 + _HASH_BYTES], seed_mask)
    block = _xor(message[1 + _HASH_BYTES :], _mask(seed, len(message) - 1 - _HASH_BYTES))
    padding, separator, key = block[_HASH_BYTES:].partition(b"\x01")
    is_valid = message[:1] == b"\0" and block[:_HASH_BYTES] == hashlib.sha3_512(b"").digest()
    if not is_valid or padding.strip(b"\0") or not separator:
        raise EncryptionError("the data key was encrypted with another key")
    return key


def _mask(seed: bytes, size: int) -> bytes:
    """Return the mask that MGF1 generates."""
    count = -(-size // _HASH_BYTES)
    blocks = (hashlib.sha3_512(seed + number.to_bytes(4, "big")).digest() for number in range(count))
    return b"".join(blocks)[:size]


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))
