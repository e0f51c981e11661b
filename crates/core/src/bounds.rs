//! The largest inputs that the engine accepts. docs/reference/limits.md lists them all;
//! python/tailrace/bounds.py holds those of the Python side.

const MIB: u64 = 1 << 20;

/// Size of a Parquet file's footer; Tailrace writes 2 kB for each row group.
pub const FOOTER_BYTES: u64 = 16 * MIB;
/// Columns of a Parquet file.
pub const COLUMNS: usize = 1_000;
/// Bytes of one page of a Parquet file, decompressed: writers make pages of 1 MiB.
pub const PAGE_BYTES: u64 = 64 * MIB;
/// Bytes that a table may take when it is decoded, whatever the size of its file, for very regular rows take almost no
/// byte each: 4 million visits, with which a diagnosis takes 1.9 GB …
pub const TABLE_BYTES: u64 = 640 * MIB;
/// … of them in one row group, which is decoded at once: a million rows of 256 bytes …
pub const GROUP_BYTES: u64 = 256 * MIB;
/// … or bytes for each byte of a larger file or row group: visits take 5, samples of an idle host 100.
pub const TABLE_EXPANSION: u64 = 256;

/// The largest window of a zstd frame, as a power of two: 512 MiB, which `zstd --long=29` makes and
/// which unpacking needs in memory. Python has the same bound, and the same bounds of expansion.
pub const ZSTD_WINDOW_LOG: u32 = 29;
/// What a compressed file may expand to: so many bytes …
pub const EXPANSION_FREE: u64 = 256 * MIB;
/// … plus so many times its length.
pub const EXPANSION: u64 = 128;
/// Bytes of one element (a trace, a batch of spans) in a long JSON file. Python has the same bound.
pub const JSON_ELEMENT: usize = 16 << 20;
/// Damaged elements of a JSON file after which reading ends: each may take as long as the largest element. Python has the
/// same bound.
pub const JSON_DAMAGED: u32 = 1_000;
/// Bytes of damaged elements that may be parsed besides as many as the file has: eight of the largest elements. Python
/// has the same bound.
pub const JSON_IN_VAIN: u64 = 8 * JSON_ELEMENT as u64;
/// A message of OTLP, packed or unpacked. Python has the same bound.
pub const OTLP_MESSAGE: usize = 64 << 20;
/// Moments beyond ±146 years around the epoch are damage, and would overflow the differences of two moments.
pub const MOMENT_MAX: i64 = 1 << 62;
/// A duration beyond a year is damage: 366 days.
pub const DURATION_MAX: i64 = 366 * 24 * 3600 * 1_000_000_000;
/// Of what is sampled: what is beyond 64 bits is no count, no size and no share.
pub const VALUE_MAX: f64 = i64::MAX as f64;
