"""Cut into ranges anywhere, a file gives the same rows as read whole, whatever was guessed about the cut."""
import ctypes
import random

import pytest
from csv_probe import ReadError, Reader

NASTY = {
    "plain": b"a,b,c\n1,x,2.5\n2,yy,3.5\n3,zzz,4.5\n",
    "no_end": b"a,b\n1,2\n3,4",
    "crlf": b"a,b\r\n1,2\r\n3,4\r\n\r\n5,6\r\n",
    "cr": b"a,b\r1,2\r3,4\r\r5,6",
    "mixed": b"a,b\r\n1,2\n3,4\r5,6\n\r7,8\r\n",
    "quoted_lines": b'a,b\n"x\ny",1\n"z\n\n",2\n"",3\nq,4\n',
    "looks_like_rows": b'a,b\n1,"2\n3,4\n5,6\n"\n7,"8\n9,10"\n',
    "doubled": b'a,b\n"""x""",1\n"y""\n""z",2\n"""",3\n"""\n""",4\n',
    "all_quoted": b'"a","b"\n"1","x, y"\n"2","he said ""no""\n"\n"3",""\n',
    "stray": b'a,b\nx"y,1\nz"",2\n"q"r,3\n"q"r"s,4\nt,5\n',
    "one_column": b'a\n1\n\n"2\n3"\n4\n',
    "bom": b'\xef\xbb\xbfa,b\n1,"x\n"\n2,y\n',
    "utf8": 'a,b\nä,"ö\nü"\n€,"\n😀"\n'.encode(),
    "empty_fields": b"a,b,c\n,,\n1,,\n,\"\",3\n,,\n",
    "only_quotes": b'a\n""\n""""\n""""""\n"\n"\n',
    "header_with_line": b'"a\nx",b\n1,2\n"3\n",4\n',
}
OPTIONS = {
    "escaped": (b'a,b\n"x\\"\n,",1\nq\\,r,2\n"\\\\\n",3\n\\\nx,4\n', {"escape": "\\"}),
    "comments": (b'a,b\n#x "\n1,2\n"#\n#",3\n# y, z, "\n4,5\n', {"comment": "#"}),
    "no_quotes": (b'a,b\n"1,2\n3",4\n"\n"x,"y\n', {"quote": "none", "ragged": "skip"}),
    "not_doubled": (b'a,b\n"x"",1\n"y",2\n"z\n",3\n', {"no_doubled_quotes": None}),
    "tabs": (b'a\tb\n1\t"x\n\t"\n2\ty\n', {"delimiter": "tab"}),
    "filled": (b'a,b,c\n1\n"2\n",3\n4,5,6\n', {"ragged": "fill"}),
    "skipped": (b'a,b\n1\n"2\n",3\n4,5,6\n7,8\n', {"ragged": "skip"}),
    "skip_lines": (b'x "\ny\na,b\n1,2\n"3\n",4\n', {"skip_lines": 2}),
}
CASES = {**{name: (text, {}) for name, text in NASTY.items()}, **OPTIONS}


@pytest.fixture(scope="module")
def read(weir_build):
    return Reader(ctypes.CDLL(str(weir_build / "libweir_probe.so")))


def rows(read, path, **options):
    try:
        table = read(path, **options)
        return table.schema, table.to_pylist()
    except ReadError as error:
        return str(error)


@pytest.mark.parametrize("name", CASES)
def test_every_cut(read, tmp_path, name):
    text, options = CASES[name]
    path = tmp_path / "a.csv"
    path.write_bytes(text)
    whole = rows(read, path, **options)
    assert name in ("stray_error",) or not isinstance(whole, str), whole
    # Cuts lie behind the header: before it there is nothing to cut.
    for cut in range(1, len(text) + 1):
        for guess in (-1, 0, 1):
            assert rows(read, path, cuts=[cut], guess=guess, **options) == whole, (name, cut, guess)


@pytest.mark.parametrize("name", CASES)
def test_two_cuts(read, tmp_path, name):
    text, options = CASES[name]
    path = tmp_path / "a.csv"
    path.write_bytes(text)
    whole = rows(read, path, **options)
    for first in range(1, len(text)):
        for second in range(first, len(text) + 1, 3):
            guess = (first + second) % 3 - 1
            assert rows(read, path, cuts=[first, second], guess=guess, **options) == whole, (name, first, second)


def test_random_files(read, tmp_path):
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)
    path = tmp_path / "a.csv"
    for _ in range(150):
        width = rng.randint(1, 4)
        text = ",".join("abcd"[:width]).encode() + b"\n"
        text += bytes(rng.choice(b'ab12",,\n\n\r"') for _ in range(rng.randint(0, 60)))
        path.write_bytes(text)
        options = {"ragged": rng.choice(["fill", "skip"]), "infer": "none"}
        whole = rows(read, path, **options)
        for _ in range(12):
            cuts = sorted(rng.randint(1, len(text)) for _ in range(rng.randint(1, 3)))
            guess = rng.choice([-1, 0, 1])
            assert rows(read, path, cuts=cuts, guess=guess, **options) == whole, (text, cuts, guess, options)


def test_error_lines(read, tmp_path):
    """The line of an error counts from the file's beginning, in whichever range it is."""
    path = tmp_path / "a.csv"
    text = b'a,b\n' + b'1,"x\ny"\n' * 10 + b"1\n" + b'1,"x\ny"\n' * 5
    path.write_bytes(text)
    for cut in range(5, len(text), 3):
        for guess in (-1, 0, 1):
            with pytest.raises(ReadError, match="line 22: the row has 1 field instead of 2: 1 "):
                read(path, cuts=[cut], guess=guess, types="a=int64,b=string", infer="none")


def test_guesses_are_good(read, tmp_path):
    """Of cuts into ordinary files few are guessed wrong."""
    rng = random.Random(7)
    path = tmp_path / "a.csv"
    lines = ["id,text,price,other"]
    for i in range(400):
        text = rng.choice(['"a, b"', 'plain', '"two\nlines, here"', '"he said ""x, y"""', '""', '"1,2,3\n4,5,6"'])
        lines.append(f'{i},{text},{rng.random():.3f},"q{i}"')
    data = ("\n".join(lines) + "\n").encode()
    path.write_bytes(data)
    wrong = 0
    for cut in range(25, len(data), 61):
        read(path, cuts=[cut])
        wrong += read.rereads
    assert wrong <= 3, wrong
