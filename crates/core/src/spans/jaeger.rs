//! Traces of Jaeger: what its page exports, and what its API answers.
//!
//! ```text
//! {"traceID": …, "spans": [{"references": […], "startTime": µs, "processID": "p1", …}], "processes": {"p1": …}}
//! ```

use regex::bytes::Regex;
use rustc_hash::FxHashMap;

use super::attributes::{
    beginning, pairs, Attributes, Known, ERROR, KIND, OTEL_STATUS, SAMPLER, SAMPLER_PARAM,
};
use super::sheet::{kind_of, Draft, Id, Sheet};
use super::{end_of, microseconds};
use crate::json::{Parser, Result, Scalar};

#[derive(Clone, Default)]
struct Process<'t> {
    service: Scalar<'t>,
    tags: Attributes<'t>,
}

type Processes<'t> = FxHashMap<Vec<u8>, Process<'t>>;

/// Jaeger's warnings of times that it moved. It also warns of a skew for which it adjusted nothing.
pub fn moved() -> std::result::Result<Regex, regex::Error> {
    Regex::new(
        r"timestamps? (?:was|were) adjusted|clock skew adjust(?:ed|ment applied)|adjusted by",
    )
}

/// A trace.
pub fn read<'t>(
    parser: &mut Parser<'t>,
    known: &Known,
    moved: &Regex,
    sheet: &mut Sheet,
) -> Result<()> {
    let (mut processes, mut later) = (Processes::default(), Vec::new());
    parser.object(|parser, key| match key {
        b"processes" => parser.object(|parser, name| {
            let process = process(parser, known)?;
            processes.insert(name.to_vec(), process);
            Ok(())
        }),
        b"spans" => {
            later.push(parser.clone());
            parser.skip()
        }
        _ => parser.skip(),
    })?;
    for mut parser in later {
        parser.objects(|parser| span(parser, known, moved, &processes, sheet))?;
    }
    Ok(())
}

fn process<'t>(parser: &mut Parser<'t>, known: &Known) -> Result<Process<'t>> {
    let mut found = Process::default();
    parser.object(|parser, key| {
        match key {
            b"serviceName" => found.service = beginning(parser.scalar()?),
            b"tags" => tags(parser, known, &mut found.tags)?,
            _ => parser.skip()?,
        }
        Ok(())
    })?;
    Ok(found)
}

fn span<'t>(
    parser: &mut Parser<'t>,
    known: &Known,
    moved: &Regex,
    processes: &Processes<'t>,
    sheet: &mut Sheet,
) -> Result<()> {
    let (mut span, mut values) = (Draft::default(), Attributes::default());
    let (mut own, mut named, mut took) = (None, Scalar::Null, Scalar::Null);
    parser.object(|parser, key| {
        match key {
            b"traceID" => span.trace = Id::Text(parser.scalar()?),
            b"spanID" => span.id = Id::Text(parser.scalar()?),
            b"operationName" => span.name = parser.scalar()?,
            b"references" => span.parent = Id::Text(parent(parser)?),
            b"startTime" => span.begin = microseconds(&parser.scalar()?),
            b"duration" => took = parser.scalar()?,
            b"tags" => tags(parser, known, &mut values)?,
            b"process" if parser.peek()? == b'{' => own = Some(process(parser, known)?),
            b"processID" => named = parser.scalar()?,
            b"warnings" => parser.list(|parser| {
                let warning = parser.scalar()?;
                span.moved |= warning.text().is_some_and(|text| moved.is_match(text));
                Ok(())
            })?,
            _ => parser.skip()?,
        }
        Ok(())
    })?;
    let shared = named.text().and_then(|name| processes.get(name));
    let process = own.as_ref().or(shared);
    if let Some(process) = process {
        values.complete(&process.tags);
    }
    span.end = end_of(span.begin, &took);
    let value = |slot| values.get(slot).and_then(Scalar::text);
    span.kind = value(KIND).map_or(0, kind_of);
    span.failed = values.get(ERROR) == Some(&Scalar::Bool(true))
        || value(ERROR) == Some(b"true")
        || value(OTEL_STATUS) == Some(b"ERROR");
    if value(SAMPLER) == Some(b"probabilistic") {
        span.kept = values.get(SAMPLER_PARAM).and_then(Scalar::number);
    }
    let service = process.and_then(|process| process.service.text());
    let service = sheet.texts.number(service);
    sheet.add(&span, service, &values, known);
    Ok(())
}

/// The id of the first reference.
fn parent<'t>(parser: &mut Parser<'t>) -> Result<Scalar<'t>> {
    let mut first = None;
    parser.objects(|parser| {
        let mut id = Scalar::Null;
        parser.object(|parser, key| {
            match key {
                b"spanID" => id = parser.scalar()?,
                _ => parser.skip()?,
            }
            Ok(())
        })?;
        first.get_or_insert(id);
        Ok(())
    })?;
    Ok(first.unwrap_or_default())
}

/// `[{"key": "http.status_code", "type": "int64", "value": 200}]`
fn tags<'t>(parser: &mut Parser<'t>, known: &Known, into: &mut Attributes<'t>) -> Result<()> {
    pairs(parser, known, into, Parser::scalar)
}
