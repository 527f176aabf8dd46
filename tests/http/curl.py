"""What the examples need of curl, for machines that have none: `python -m tests.http.curl -X … -H … -d … URL`."""

import argparse
import sys
from http.client import HTTPConnection
from urllib.parse import urlsplit


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("-X", dest="method")
    parser.add_argument("-H", dest="headers", action="append", default=[])
    parser.add_argument("-d", "--data-binary", dest="data")
    parser.add_argument("-w", dest="ending", default="")
    asked = parser.parse_args(arguments)
    address = urlsplit(asked.url)
    body = None if asked.data is None else asked.data.encode()
    headers = dict(each.split(": ", 1) for each in asked.headers)
    connection = HTTPConnection(address.hostname or "", address.port, timeout=60)
    target = f"{address.path or '/'}?{address.query}" if address.query else address.path or "/"
    connection.request(asked.method or ("GET" if body is None else "POST"), target, body, headers)
    answer = connection.getresponse()
    sys.stdout.write(answer.read().decode() + asked.ending.replace("%{http_code}", str(answer.status)))
    connection.close()


if __name__ == "__main__":
    main(sys.argv[1:])
