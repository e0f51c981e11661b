//! Opens records of these lengths again and again with AES-128-GCM, and does nothing else.
//!
//! `aead-driver TIMES < LENGTHS`: the length of each record of TLS on a line, with its tag.

use std::hint::black_box;
use std::io::{self, BufRead};

use ring::aead::{Aad, LessSafeKey, Nonce, UnboundKey, AES_128_GCM};
use ring::error::Unspecified;

const TAG: usize = 16;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let times: u32 = std::env::args().nth(1).ok_or("TIMES")?.parse()?;
    let lengths: Vec<usize> = io::stdin()
        .lock()
        .lines()
        .map_while(Result::ok)
        .filter_map(|line| line.trim().parse().ok())
        .filter(|&length| length > TAG)
        .collect();
    let wrong = |_: Unspecified| "a record does not open";
    let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &[7; 16]).map_err(wrong)?);
    let mut records = Vec::new();
    for length in lengths {
        let mut record = vec![b'x'; length - TAG];
        key.seal_in_place_append_tag(nonce(), Aad::from([3; 5]), &mut record)
            .map_err(wrong)?;
        records.push(record);
    }
    let (mut scratch, mut bytes) = (Vec::new(), 0);
    for _ in 0..times {
        for record in &records {
            scratch.clear();
            scratch.extend_from_slice(record);
            let opened = key.open_in_place(nonce(), Aad::from([3; 5]), &mut scratch);
            bytes += black_box(opened.map_err(wrong)?).len();
        }
    }
    println!("{bytes}");
    Ok(())
}

fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([1; 12])
}
