//! The Huffman code of HPACK (RFC 7541, appendix B). It is canonical: codes of one length are consecutive numbers in the
//! order of their symbols, so that the lengths are enough.

const SYMBOLS: usize = 257;
/// The symbol that ends a text, which no text contains.
const EOS: u16 = 256;
const SHORTEST: usize = 5;
const LONGEST: usize = 30;

/// Bits of each symbol's code.
#[rustfmt::skip]
const LENGTHS: [u8; SYMBOLS] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,
];

/// For each length: its first code, how many codes have it, and where their symbols begin in `sorted`.
struct Code {
    first: [u32; LONGEST + 1],
    count: [u32; LONGEST + 1],
    begin: [u16; LONGEST + 1],
    sorted: [u16; SYMBOLS],
}

const CODE: Code = code();

const fn code() -> Code {
    let mut code = Code {
        first: [0; LONGEST + 1],
        count: [0; LONGEST + 1],
        begin: [0; LONGEST + 1],
        sorted: [0; SYMBOLS],
    };
    let (mut next, mut placed, mut length) = (0, 0, 1);
    while length <= LONGEST {
        next <<= 1;
        code.first[length] = next;
        code.begin[length] = placed;
        let mut symbol = 0;
        while symbol < SYMBOLS {
            if LENGTHS[symbol] as usize == length {
                code.sorted[placed as usize] = symbol as u16;
                (placed, next) = (placed + 1, next + 1);
            }
            symbol += 1;
        }
        code.count[length] = next - code.first[length];
        length += 1;
    }
    code
}

/// Appends the text to `out`. False: this is not the code of a text, or its end is missing.
pub fn decode(bytes: &[u8], out: &mut Vec<u8>) -> bool {
    let (mut held, mut bits) = (0_u64, 0);
    let mut rest = bytes.iter();
    loop {
        while bits <= 56 {
            let Some(&byte) = rest.next() else { break };
            held |= u64::from(byte) << (56 - bits);
            bits += 8;
        }
        match symbol(held, bits) {
            Some((EOS, _)) => return false,
            Some((symbol, length)) => {
                out.push(symbol as u8);
                held <<= length;
                bits -= length;
            }
            // Up to seven bits of padding, which are the beginning of EOS.
            None => return bits < 8 && held == !(u64::MAX >> bits),
        }
    }
}

/// The symbol whose code begins the `bits` held, and the length of its code.
fn symbol(held: u64, bits: usize) -> Option<(u16, usize)> {
    (SHORTEST..=LONGEST.min(bits)).find_map(|length| {
        let nth = ((held >> (64 - length)) as u32).wrapping_sub(CODE.first[length]);
        let is = nth < CODE.count[length];
        is.then(|| {
            (
                CODE.sorted[usize::from(CODE.begin[length]) + nth as usize],
                length,
            )
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &[u8]) -> Option<String> {
        let mut out = Vec::new();
        decode(bytes, &mut out).then(|| String::from_utf8_lossy(&out).into_owned())
    }

    #[test]
    fn texts_of_the_rfc() {
        // RFC 7541, C.4.1, C.4.2, C.4.3 and C.6.1.
        let cases: [(&[u8], &str); 5] = [
            (
                b"\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff",
                "www.example.com",
            ),
            (b"\xa8\xeb\x10\x64\x9c\xbf", "no-cache"),
            (b"\x25\xa8\x49\xe9\x5b\xb8\xe8\xb4\xbf", "custom-value"),
            (b"\x64\x02", "302"),
            (b"", ""),
        ];
        for (code, expected) in cases {
            assert_eq!(text(code).as_deref(), Some(expected));
        }
    }

    #[test]
    fn what_is_no_text() {
        let end_of_string = b"\xff\xff\xff\xff";
        let padded_with_zeros = b"\x18";
        let padded_with_a_byte = b"\x64\x02\xff\xff";
        for code in [&end_of_string[..], padded_with_zeros, padded_with_a_byte] {
            assert_eq!(text(code), None, "{code:x?}");
        }
    }
}
