"""A certificate for 127.0.0.1 and the authority that has signed it, good until the year 2120.

The key is no secret: nothing but these tests trusts this authority, whose own key was thrown away.
"""

import ssl
from pathlib import Path

AUTHORITY = """\
-----BEGIN CERTIFICATE-----
MIIBejCCASCgAwIBAgIUXM0miDwjUEjh7LGon1ndb8p101cwCgYIKoZIzj0EAwIw
GjEYMBYGA1UEAwwPY29tZnlyYWlsIHRlc3RzMCAXDTIwMDEwMTAwMDAwMFoYDzIx
MjAwMTAxMDAwMDAwWjAaMRgwFgYDVQQDDA9jb21meXJhaWwgdGVzdHMwWTATBgcq
hkjOPQIBBggqhkjOPQMBBwNCAAQRelcp0X4L72QhK7/YEzoeoP/dqZbmQtAccfN2
PWxImTK6Q5ROVR62pVtpRoPo23UqAjawhGcfBGZjGLU6eQ5Eo0IwQDAPBgNVHRMB
Af8EBTADAQH/MA4GA1UdDwEB/wQEAwIBBjAdBgNVHQ4EFgQU5NL/aRtBFn4TXNbA
HJNOHgonH9swCgYIKoZIzj0EAwIDSAAwRQIhAKB71JIeaedsL5p8/+B+Lf1zHVkY
mUj3hn3i4+uuKI5rAiB0U6UW9jtdeQGInz1hyys5+S7Sk4+V2WB1xMT0Ztr1KQ==
-----END CERTIFICATE-----
"""

CERTIFICATE = """\
-----BEGIN CERTIFICATE-----
MIIBujCCAWCgAwIBAgIUAtKCu2MZj+d064vtFcSW5mvlqjMwCgYIKoZIzj0EAwIw
GjEYMBYGA1UEAwwPY29tZnlyYWlsIHRlc3RzMCAXDTIwMDEwMTAwMDAwMFoYDzIx
MjAwMTAxMDAwMDAwWjAUMRIwEAYDVQQDDAkxMjcuMC4wLjEwWTATBgcqhkjOPQIB
BggqhkjOPQMBBwNCAARzRzttNw5IvLlvMbUdqO4AayV27RRmXbqtoqo9fABxdwVQ
ukRb8HxiK09UAE+Qsq1FJsdF1g6wfol9KnipJbB/o4GHMIGEMAwGA1UdEwEB/wQC
MAAwDgYDVR0PAQH/BAQDAgeAMBMGA1UdJQQMMAoGCCsGAQUFBwMBMA8GA1UdEQQI
MAaHBH8AAAEwHQYDVR0OBBYEFDF6T79Ag/lcmENmj/gLD/80eL11MB8GA1UdIwQY
MBaAFOTS/2kbQRZ+E1zWwByTTh4KJx/bMAoGCCqGSM49BAMCA0gAMEUCIQCTcB1c
HvBVUG3TEpLknCiNHs3TS351xGPUenhnh1kZuQIgIeRutfYa1Bck5ypJnDHNYZlh
t/nXIgf83h3t73oTxDg=
-----END CERTIFICATE-----
-----BEGIN EC PRIVATE KEY-----
MHcCAQEEII/5A0FgcXduuSnpiHbExui09K9HowMgL/h9rHL2ejNyoAoGCCqGSM49
AwEHoUQDQgAEc0c7bTcOSLy5bzG1HajuAGsldu0UZl26raKqPXwAcXcFULpEW/B8
YitPVABPkLKtRSbHRdYOsH6JfSp4qSWwfw==
-----END EC PRIVATE KEY-----
"""


def server_context(folder: Path) -> ssl.SSLContext:
    """For a server on 127.0.0.1; `folder` gets the file `ca.crt`."""
    (folder / "ca.crt").write_text(AUTHORITY)
    both = folder / "server.pem"
    both.write_text(CERTIFICATE)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(both)
    return context
