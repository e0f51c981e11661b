//! The spans of a part, the first of each id, with what is above each.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, UInt32Array, UInt8Array};
use arrow_schema::ArrowError;
use rustc_hash::FxHashMap;

use super::links::{self, Links};
use super::sheet::{CHOSEN, CLIENT, CONNECTION, MOVED, SERVER};
use super::store::Span;

/// The kind of a span that is a server's if the span above it is of another service or missing.
pub const BY_SERVICE: u8 = 255;

pub struct Linked {
    pub spans: Vec<Span>,
    /// The span above, or a negative number.
    pub above: Vec<i64>,
    /// The nearest server or consumer above, or `links::ROOT`, or another negative number.
    pub container: Vec<i64>,
    /// The servers and consumers, each after its container.
    pub order: Vec<u32>,
    pub cycles: u32,
    /// Spans that came twice.
    pub twice: usize,
}

impl Linked {
    pub fn of(mut spans: Vec<Span>) -> Self {
        decide_kinds(&mut spans);
        let all = links::Spans {
            key: spans.iter().map(|span| span.key).collect(),
            parent: spans.iter().map(|span| span.parent).collect(),
            kind: spans.iter().map(|span| span.kind).collect(),
        };
        let links = Links::of(&all);
        let twice = spans.len() - links.row.len();
        if twice > 0 {
            spans = links.row.iter().map(|&row| spans[row as usize]).collect();
        }
        // Without a host of its own, a service has its own clock.
        for span in &mut spans {
            span.host = if span.host == 0 {
                span.service
            } else {
                span.host
            };
        }
        Linked {
            spans,
            above: links.above,
            container: links.container,
            order: links.order,
            cycles: links.cycles,
            twice,
        }
    }

    /// The span above that of this number.
    pub fn above(&self, number: usize) -> Option<usize> {
        usize::try_from(*self.above.get(number)?).ok()
    }

    /// Spans that a store moved, those whose trace was chosen, and waits for a connection.
    pub fn marked(&self) -> [usize; 3] {
        [MOVED, CHOSEN, CONNECTION].map(|mark| {
            let spans = self.spans.iter();
            spans.filter(|span| span.marks & mark != 0).count()
        })
    }

    /// The calls between two hosts. A server's span lies inside that of its client: the columns `least` and `largest`
    /// bound what is to be added to the times of the server's host (ns).
    pub fn calls(&self) -> Result<RecordBatch, ArrowError> {
        let mut hosts: [Vec<u32>; 2] = Default::default();
        let mut bounds: [Vec<i64>; 2] = Default::default();
        for (number, server) in self.spans.iter().enumerate() {
            let above = self.above(number).filter(|_| server.kind == SERVER);
            let Some(client) = above.map(|above| &self.spans[above]) else {
                continue;
            };
            if client.kind == CLIENT && client.host != server.host {
                hosts[0].push(client.host);
                hosts[1].push(server.host);
                bounds[0].push(client.begin.wrapping_sub(server.begin));
                bounds[1].push(client.end.wrapping_sub(server.end));
            }
        }
        let ([client, server], [least, largest]) = (hosts, bounds);
        let columns: [(&str, ArrayRef); 4] = [
            ("client", Arc::new(UInt32Array::from(client))),
            ("server", Arc::new(UInt32Array::from(server))),
            ("least", Arc::new(Int64Array::from(least))),
            ("largest", Arc::new(Int64Array::from(largest))),
        ];
        RecordBatch::try_from_iter(columns)
    }

    /// Adds an offset to the times of each host, by its number.
    pub fn shift(&mut self, added: &[i64]) {
        for span in &mut self.spans {
            let offset = added.get(span.host as usize).copied().unwrap_or(0);
            span.begin = span.begin.wrapping_add(offset);
            span.end = span.end.wrapping_add(offset);
        }
    }

    /// What is known of each span, for those who look for rare ones.
    pub fn columns(&self) -> Result<RecordBatch, ArrowError> {
        let each = |of: fn(&Span) -> i64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values(self.spans.iter().map(of)))
        };
        let spans = self.spans.iter();
        let waits: Vec<bool> = spans.map(|span| span.marks & CONNECTION != 0).collect();
        let kinds = self.spans.iter().map(|span| span.kind);
        let columns: [(&str, ArrayRef); 8] = [
            ("kind", Arc::new(UInt8Array::from_iter_values(kinds))),
            ("begin", each(|span| span.begin)),
            ("end", each(|span| span.end)),
            ("service", each(|span| i64::from(span.service))),
            ("interaction", each(|span| i64::from(span.interaction))),
            ("connection", Arc::new(BooleanArray::from(waits))),
            ("above", Arc::new(Int64Array::from(self.above.clone()))),
            (
                "container",
                Arc::new(Int64Array::from(self.container.clone())),
            ),
        ];
        RecordBatch::try_from_iter(columns)
    }
}

/// Gives spans of no kind of their own the kind of an inner span or of a server.
fn decide_kinds(spans: &mut [Span]) {
    if spans.iter().all(|span| span.kind != BY_SERVICE) {
        return;
    }
    // Of spans with the same key, the last counts.
    let services: FxHashMap<u64, u32> = spans.iter().map(|span| (span.key, span.service)).collect();
    for span in spans.iter_mut().filter(|span| span.kind == BY_SERVICE) {
        let above = span.parent.and_then(|parent| services.get(&parent));
        span.kind = if above == Some(&span.service) {
            0
        } else {
            SERVER
        };
    }
}
