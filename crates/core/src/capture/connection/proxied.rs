//! The header by which a proxy passes on the address of its client (HAProxy's PROXY protocol, versions 1 and 2). It
//! comes before the first bytes of whatever protocol, and belongs to no exchange.

use super::super::wire::Chunk;

/// Version 1: a line of at most 107 bytes.
const LINE: &[u8] = b"PROXY ";
const LINE_MAX: usize = 107;
/// Version 2: these bytes, a version and command, a family, and the length of the rest.
const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
const FIXED: usize = 16;

/// The first bytes of a client without such a header.
pub(super) fn behind_header(chunk: Chunk<'_>) -> Chunk<'_> {
    let len = header_len(chunk.bytes).unwrap_or(0);
    let Ok(behind) = usize::try_from(chunk.len).map(|all| len.min(all)) else {
        return chunk;
    };
    Chunk {
        time: chunk.time,
        bytes: chunk.bytes.get(behind..).unwrap_or(&[]),
        len: chunk.len - behind as u64,
    }
}

fn header_len(bytes: &[u8]) -> Option<usize> {
    if bytes.starts_with(LINE) {
        let end = bytes
            .iter()
            .take(LINE_MAX)
            .position(|&byte| byte == b'\n')?;
        let words = bytes.get(LINE.len()..end)?;
        let known = [&b"TCP4 "[..], b"TCP6 ", b"UNKNOWN"];
        return known
            .iter()
            .any(|word| words.starts_with(word))
            .then_some(end + 1);
    }
    match bytes.strip_prefix(SIGNATURE)? {
        [0x20 | 0x21, _, high, low, ..] => {
            Some(FIXED + usize::from(u16::from_be_bytes([*high, *low])))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn behind(bytes: &[u8], len: u64) -> (Vec<u8>, u64) {
        let chunk = behind_header(Chunk {
            time: 0,
            bytes,
            len,
        });
        (chunk.bytes.to_vec(), chunk.len)
    }

    #[test]
    fn both_versions_are_skipped() {
        let line = b"PROXY TCP4 192.0.2.1 192.0.2.2 5 80\r\nGET /";
        assert_eq!(behind(line, line.len() as u64), (b"GET /".to_vec(), 5));
        let binary = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0cabcdabcdppppGET /";
        assert_eq!(behind(binary, binary.len() as u64), (b"GET /".to_vec(), 5));
        assert_eq!(
            behind(&binary[..20], 33),
            (Vec::new(), 5),
            "cut by the snap length"
        );
        assert_eq!(behind(&binary[..20], 20), (Vec::new(), 0));
    }

    #[test]
    fn anything_else_stays() {
        for bytes in [
            &b"PROXY of a word\r\n"[..],
            b"PROXY TCP4 no end",
            b"GET / HTTP/1.1\r\n",
            SIGNATURE,
            b"",
        ] {
            assert_eq!(
                behind(bytes, bytes.len() as u64),
                (bytes.to_vec(), bytes.len() as u64)
            );
        }
    }
}
