//! Header blocks of one direction, which may come in several frames, and what they say of an exchange.

use super::super::framing::Packet;
use super::super::http::head::is_event_stream;
use super::super::software::Software;
use super::super::trace::Found;
use super::super::Raw;
use super::frame::{self, Head, CONTINUATION, END_HEADERS, END_STREAM, HEADERS, PUSH_PROMISE};
use super::hpack::{Field, Name, Table};
use serde::{Deserialize, Serialize};

/// The longest block: eight times the default limit of servers (nginx: 8 KiB).
const BLOCK_MAX: usize = 64 << 10;

/// The blocks of one direction.
#[derive(Debug, Default, Deserialize, Serialize)]
pub struct Blocks {
    table: Table,
    begun: Option<Block>,
}

/// A block: the stream of its first frame, and whether that ends its stream.
#[derive(Debug, Deserialize, Serialize)]
pub struct Block {
    pub stream: u32,
    pub ends: bool,
    /// It announces a response that nobody asked for.
    pub promised: bool,
    /// When its first byte came, and the length of all its frames so far.
    pub begun: i64,
    pub bytes: u64,
    content: Vec<u8>,
    whole: bool,
}

impl Blocks {
    /// Some of them were lost.
    pub fn forget(&mut self) {
        *self = Blocks::default();
    }

    /// A frame of a block; returns the block if no more of it will come.
    pub fn gather(&mut self, head: Head, packet: &Packet<'_>) -> Option<Block> {
        let (content, whole) = frame::block(head, packet);
        if head.kind != CONTINUATION {
            self.begun = Some(Block {
                stream: head.stream,
                ends: head.kind == HEADERS && head.is(END_STREAM),
                promised: head.kind == PUSH_PROMISE,
                begun: packet.begun,
                bytes: 0,
                content: Vec::new(),
                whole: true,
            });
        }
        let block = self
            .begun
            .as_mut()
            .filter(|block| block.stream == head.stream)?;
        block.bytes += packet.early + packet.now;
        let room = BLOCK_MAX - block.content.len();
        block
            .content
            .extend_from_slice(&content[..content.len().min(room)]);
        block.whole = whole && content.len() <= room;
        match head.is(END_HEADERS) || !block.whole {
            true => self.begun.take(),
            false => None,
        }
    }

    pub fn read(&mut self, block: &Block) -> Fields {
        let mut fields = Fields::default();
        self.table
            .read(&block.content, &mut |field| fields.take(field));
        if !block.whole {
            self.table.forget();
        }
        fields
    }
}

/// The longest header with the ids of a trace: that of Amazon may have more fields.
const TRACE_MAX: usize = 1024;

/// The fields of a block that describe an exchange.
#[derive(Debug, Default, Deserialize, Serialize)]
pub struct Fields {
    method: Vec<u8>,
    pub target: Vec<u8>,
    pub target_whole: bool,
    pub status: Option<u16>,
    pub grpc: bool,
    pub events: bool,
    pub grpc_status: Option<Vec<u8>>,
    pub trace: Found,
    pub software: Software,
}

impl Fields {
    pub fn take(&mut self, field: Field<'_>) {
        match field.name {
            // A field of one byte may refer to a long value, again and again: only the first counts.
            Name::Method if self.method.is_empty() => self.method = field.value.to_vec(),
            Name::Path if self.target.is_empty() => {
                (self.target, self.target_whole) = (field.value.to_vec(), field.whole);
            }
            Name::Method | Name::Path => {}
            Name::Status => {
                self.status = std::str::from_utf8(field.value)
                    .ok()
                    .and_then(|code| code.parse().ok())
            }
            Name::ContentType => {
                self.grpc = field.value.starts_with(b"application/grpc");
                self.events = is_event_stream(field.value);
            }
            Name::GrpcStatus => {
                self.grpc_status.get_or_insert_with(|| field.value.to_vec());
            }
            Name::Trace(carrier) if field.whole && field.value.len() <= TRACE_MAX => {
                self.trace.take(carrier, field.value);
            }
            Name::Runs(source) => self.software.take(source, field.value),
            Name::Trace(_) | Name::Other => {}
        }
    }

    /// A tunnel, which WebSocket also uses (RFC 8441).
    pub fn connects(&self) -> bool {
        self.method == b"CONNECT"
    }

    /// The method and path; without one of them, nothing names the request.
    pub fn raw(&self) -> Raw<'_> {
        match self.method.is_empty() || self.target.is_empty() {
            true => Raw::Unknown,
            false => Raw::Http {
                method: &self.method,
                target: &self.target,
            },
        }
    }
}
