//! Spans of Zipkin v2.
//!
//! ```text
//! {"traceId": …, "id": …, "parentId": …, "kind": "SERVER", "timestamp": µs, "localEndpoint": {…}, "tags": {…}}
//! ```

use super::attributes::{Attributes, Known, ERROR};
use super::sheet::{kind_of, Draft, Id, Sheet};
use super::{end_of, microseconds};
use crate::json::{Parser, Result, Scalar};

/// A span, or a list of spans, which is a trace.
pub fn read<'t>(parser: &mut Parser<'t>, known: &Known, sheet: &mut Sheet) -> Result<()> {
    match parser.peek()? {
        b'[' => parser.objects(|parser| span(parser, known, sheet)),
        b'{' => span(parser, known, sheet),
        _ => {
            sheet.without += 1;
            parser.skip()
        }
    }
}

fn span<'t>(parser: &mut Parser<'t>, known: &Known, sheet: &mut Sheet) -> Result<()> {
    let (mut span, mut values) = (Draft::default(), Attributes::default());
    let (mut took, mut local, mut remote) =
        (Scalar::Null, Endpoint::default(), Endpoint::default());
    parser.object(|parser, key| {
        match key {
            b"traceId" => span.trace = Id::Text(parser.scalar()?),
            b"id" => span.id = Id::Text(parser.scalar()?),
            b"parentId" => span.parent = Id::Text(parser.scalar()?),
            b"name" => span.name = parser.scalar()?,
            b"kind" => span.kind = parser.scalar()?.text().map_or(0, kind_of),
            b"timestamp" => span.begin = microseconds(&parser.scalar()?),
            b"duration" => took = parser.scalar()?,
            b"localEndpoint" => local = endpoint(parser)?,
            b"remoteEndpoint" => remote = endpoint(parser)?,
            b"tags" => parser.object(|parser, key| {
                match known.slot(key) {
                    Some(slot) => values.set(slot, parser.scalar()?),
                    None => parser.skip()?,
                }
                Ok(())
            })?,
            _ => parser.skip()?,
        }
        Ok(())
    })?;
    span.failed = values.has(ERROR);
    span.end = end_of(span.begin, &took);
    for (key, value) in [
        (&b"peer.service"[..], remote.service),
        (b"ip", local.address),
    ] {
        if let Some(slot) = known.slot(key).filter(|&slot| !values.has(slot)) {
            values.set(slot, value);
        }
    }
    let service = sheet.texts.number(local.service.text());
    sheet.add(&span, service, &values, known);
    Ok(())
}

#[derive(Default)]
struct Endpoint<'t> {
    service: Scalar<'t>,
    address: Scalar<'t>,
}

fn endpoint<'t>(parser: &mut Parser<'t>) -> Result<Endpoint<'t>> {
    let (mut found, mut v6) = (Endpoint::default(), Scalar::Null);
    parser.object(|parser, key| {
        match key {
            b"serviceName" => found.service = parser.scalar()?,
            b"ipv4" => found.address = parser.scalar()?,
            b"ipv6" => v6 = parser.scalar()?,
            _ => parser.skip()?,
        }
        Ok(())
    })?;
    if found.address.text().is_none() {
        found.address = v6;
    }
    Ok(found)
}
