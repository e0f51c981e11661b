//! Counts the HTTP exchanges of a pcap and adds up their response times, with the flowscope crate.
//!
//! Prints `{"transactions": …, "seconds": …}`: exchanges that have a response, as tshark's `http.time` counts them.

use std::error::Error;
use std::time::Duration;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: flowscope-driver FILE.pcap")?;
    let (mut transactions, mut total) = (0u64, Duration::ZERO);
    for (_, exchange) in flowscope::http::exchanges_from_pcap(&path)? {
        if exchange.response.is_some() {
            transactions += 1;
            total += exchange.elapsed.unwrap_or_default();
        }
    }
    println!("{{\"transactions\": {transactions}, \"seconds\": {}}}", total.as_secs_f64());
    Ok(())
}
