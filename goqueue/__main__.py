"""python -m goqueue"""

from goqueue.cli import main

if __name__ == "__main__":
    main(prog_name="goqueue")
