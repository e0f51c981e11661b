//! The columns of a run folder's tables; this is the only place in Rust that defines them.

use arrow_schema::{DataType, Field, Schema, SchemaRef};
use std::sync::Arc;

fn name(column: &str, nullable: bool) -> Field {
    Field::new_dictionary(column, DataType::Int32, DataType::Utf8, nullable)
}

fn whole(column: &str, nullable: bool) -> Field {
    Field::new(column, DataType::Int64, nullable)
}

fn natural(column: &str, nullable: bool) -> Field {
    Field::new(column, DataType::UInt64, nullable)
}

fn small(column: &str) -> Field {
    Field::new(column, DataType::UInt8, false)
}

/// One stay of a request in one server; sorted by `departure`, then `visit`.
pub fn visits() -> SchemaRef {
    Arc::new(Schema::new(vec![
        natural("visit", false),
        natural("parent", true),
        natural("request", true),
        name("server", false),
        name("interaction", true),
        name("caller", false),
        whole("sent", false),
        whole("arrival", false),
        whole("start", true),
        whole("first_byte", true),
        whole("departure", false),
        small("drops"),
        small("data_drops"),
        name("status", false),
        natural("bytes_in", true),
        natural("bytes_out", true),
        whole("downstream_ns", true),
    ]))
}

/// A visit as decoded, without what the call graph finds; sorted by `departure`, then `visit`.
pub fn stays() -> SchemaRef {
    Arc::new(Schema::new(vec![
        natural("visit", false),
        name("server", true),
        name("server_host", true),
        name("caller", true),
        Field::new("connection", DataType::UInt32, false),
        name("interaction", true),
        natural("key", false),
        whole("sent", true),
        whole("connected", true),
        whole("arrival", true),
        whole("start", true),
        whole("first_byte", true),
        whole("departure", true),
        small("drops"),
        small("data_drops"),
        name("status", true),
        natural("bytes_in", false),
        natural("bytes_out", false),
        Field::new("served", DataType::Boolean, false),
    ]))
}

/// One request of a client, end to end; sorted by `end`, then `request`.
pub fn requests() -> SchemaRef {
    Arc::new(Schema::new(of_a_request()))
}

/// The same as a load generator knows them.
pub fn sent_requests() -> SchemaRef {
    let mut columns = of_a_request();
    columns.push(whole("intended", false));
    columns.push(whole("first_byte", true));
    Arc::new(Schema::new(columns))
}

fn of_a_request() -> Vec<Field> {
    vec![
        natural("request", false),
        Field::new("client", DataType::UInt32, true),
        name("server", false),
        name("interaction", true),
        whole("sent", false),
        whole("connected", true),
        whole("end", false),
        name("status", false),
        small("drops"),
        small("data_drops"),
        natural("bytes", true),
    ]
}

/// One metric of one place in one sampling interval; sorted by `time`.
pub fn samples() -> SchemaRef {
    Arc::new(Schema::new(vec![
        whole("time", false),
        whole("interval_ns", false),
        name("place", false),
        name("metric", false),
        Field::new("value", DataType::Float64, false),
    ]))
}

/// Something that lasted; sorted by `begin`.
pub fn events() -> SchemaRef {
    Arc::new(Schema::new(vec![
        name("place", false),
        name("kind", false),
        whole("begin", false),
        whole("end", false),
        Field::new("detail", DataType::Utf8, true),
    ]))
}
