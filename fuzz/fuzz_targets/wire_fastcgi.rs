#![no_main]

mod conversation;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| conversation::drive(tailrace_core::capture::wire::Kind::FastCgi, bytes));
