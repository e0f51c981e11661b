//! libFuzzer's harness of the target that the variable `TARGET` names.
#![no_main]

use std::sync::LazyLock;

static RUN: LazyLock<fn(&[u8])> = LazyLock::new(|| {
    let name = std::env::var("TARGET").unwrap_or_default();
    tailrace_fuzz::target(&name)
        .unwrap_or_else(|| panic!("TARGET={name} is none of fuzz/src/lib.rs"))
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| RUN(bytes));
