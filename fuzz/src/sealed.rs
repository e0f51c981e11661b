//! Bytes → what happens on a connection with TLS, of whose sessions some secrets are known: everything that is handed on has
//! come. The events are those of `conversation`.

use tailrace_core::capture::tls::{Keys, Piece, Tls};
use tailrace_core::capture::wire::{Chunk, Side};

/// The secrets of the sessions in the corpus.
const SECRETS: &[u8] = include_bytes!("../../tests/golden/captures/tls.keys");

pub fn open(mut bytes: &[u8]) {
    let keys = Keys::default();
    if bytes.len() % 2 == 0 {
        keys.add(SECRETS);
        keys.add(bytes);
    }
    let mut tls = Tls::new(&keys);
    let mut time = 0;
    let (mut came, mut opened) = (0, 0);
    while let [flags, len, rest @ ..] = bytes {
        let side = if flags & 1 == 0 {
            Side::Client
        } else {
            Side::Server
        };
        let (data, rest) = rest.split_at(rest.len().min(usize::from(*len)));
        bytes = rest;
        time += 1;
        came += data.len();
        let mut count = |now: i64, piece: Piece<'_>| {
            assert!(now <= time);
            if let Piece::Opened { begun, bytes } = piece {
                assert!(begun <= now);
                opened += bytes.len();
            }
        };
        if flags & 2 == 2 {
            tls.gap(side, time, data.len() as u64, &mut count);
        } else {
            let hidden = if flags & 8 == 0 { 0 } else { 1000 };
            let chunk = Chunk {
                time,
                bytes: data,
                len: data.len() as u64 + hidden,
            };
            tls.data(side, chunk, &mut count);
        }
    }
    assert!(opened <= came);
}
