//! Refuses impossible plans before anything happens.

use super::plan::{Arrivals, Choice, Time, Trace, LAST};
use crate::error::{Error, Result};

/// The largest duration, ns: about 6 days.
pub const LENGTH_MAX: i64 = (1 << 49) - 1;

pub fn refuse<T>(what: impl Into<String>) -> Result<T> {
    Err(Error::Options(what.into()))
}

pub fn index(what: &str, at: u32, len: usize) -> Result<()> {
    if (at as usize) < len {
        return Ok(());
    }
    refuse(format!("{what} is {at}, and there are {len}"))
}

pub fn above(what: &str, value: f64) -> Result<()> {
    if value.is_finite() && value > 0.0 {
        return Ok(());
    }
    refuse(format!("{what} must be above 0, got {value}"))
}

/// A duration that the clock can hold.
pub fn lasts(what: &str, value: i64) -> Result<()> {
    if (0..LENGTH_MAX).contains(&value) {
        return Ok(());
    }
    refuse(format!("{what} must be from 0 to 6 days, got {value} ns"))
}

pub fn within(what: &str, value: f64, most: f64) -> Result<()> {
    if (0.0..=most).contains(&value) {
        return Ok(());
    }
    refuse(format!("{what} must be from 0 to {most}, got {value}"))
}

pub fn time(what: &str, time: &Time) -> Result<()> {
    let values = match *time {
        Time::Constant(mean) | Time::Exponential(mean) | Time::Erlang { mean, .. } => [mean, 0.0],
        Time::Uniform { low, high } if low <= high => [low, high],
        Time::Uniform { .. } => {
            return refuse(format!("{what}: uniform from low to high, low first"))
        }
        Time::Hyperexponential { first, second, .. } => [first, second],
    };
    let shape = !matches!(time, Time::Erlang { shape: 0, .. });
    if shape && values.iter().all(|v| (0.0..1e17).contains(v)) {
        return Ok(());
    }
    refuse(format!(
        "{what}: a time must be from 0 to 3 years of ns, got {time:?}"
    ))
}

/// Classes are indices below `classes`.
pub fn arrivals(what: &str, arrivals: &Arrivals, classes: usize) -> Result<()> {
    match arrivals {
        Arrivals::Closed {
            think,
            aggregate,
            spread,
            chain,
            ..
        } => {
            lasts(&format!("{what}.spread"), spread.unwrap_or(0))?;
            if let Some(chain) = chain {
                for (name, value, most) in [
                    ("slow", chain.slow, 1e15),
                    ("fast", chain.fast, 1e15),
                    ("to_fast", chain.to_fast, 1.0),
                    ("to_slow", chain.to_slow, 1.0),
                ] {
                    above(&format!("{what}.chain.{name}"), value)?;
                    within(&format!("{what}.chain.{name}"), value, most)?;
                }
            }
            time(&format!("{what}.think"), think)?;
            if *aggregate && !matches!(think, Time::Exponential(mean) if *mean > 0.0) {
                return refuse(format!(
                    "{what}: thinkers can be aggregated only with exponential think times"
                ));
            }
            Ok(())
        }
        Arrivals::Poisson { rate } => above(&format!("{what}.rate"), *rate),
        Arrivals::Modulated { rates, stays } => {
            let some =
                rates.iter().any(|&r| r > 0.0) && rates.iter().all(|r| (0.0..1e12).contains(r));
            if some && rates.len() == stays.len() && stays.iter().all(|&s| s > 0) {
                return Ok(());
            }
            refuse(format!(
                "{what}: as many stays above 0 as rates, and one rate above 0"
            ))
        }
        Arrivals::Trace(trace) => self::trace(what, trace, classes),
        Arrivals::Batch { period, first, .. } => {
            if *period <= 0 || *first < 0 {
                return refuse(format!(
                    "{what}: a batch needs a period above 0 and a first time from 0 on"
                ));
            }
            Ok(())
        }
    }
}

fn trace(what: &str, trace: &Trace, classes: usize) -> Result<()> {
    let (opening, rows) = (trace.opening(), trace.times.len());
    if !opening.is_sorted() || opening.first().is_some_and(|&t| t < 0) {
        return refuse(format!(
            "{what}: the times of a trace must be in order, from 0 on"
        ));
    }
    let think = format!("{what}.times: a think time");
    for &time in &trace.times[opening.len()..] {
        lasts(&think, time)?;
    }
    if !trace.next.is_empty() && trace.next.len() != rows {
        let found = trace.next.len();
        return refuse(format!("{what}.next has {found} rows of {rows}"));
    }
    // A request that follows two, or itself in the end, would be sent more than once.
    let mut follows = vec![false; rows];
    let field = format!("{what}.next");
    for &next in trace.next.iter().filter(|&&next| next != LAST) {
        index(&field, next, rows)?;
        if (next as usize) < opening.len() || std::mem::replace(&mut follows[next as usize], true) {
            return refuse(format!(
                "{field}: request {next} follows two, or is sent at its time"
            ));
        }
    }
    let field = format!("{what}.classes");
    let mut asked = trace.classes.iter();
    asked.try_for_each(|&class| index(&field, class, classes))
}

/// Factors of a trace: one for each request and tier.
pub fn factors(what: &str, trace: &Trace, tiers: u32) -> Result<()> {
    let field = format!("{what}.factors");
    let wanted = trace.times.len() * tiers as usize;
    if !trace.factors.is_empty() && trace.factors.len() != wanted {
        let found = trace.factors.len();
        return refuse(format!("{field} must be {wanted}, got {found}"));
    }
    let mut factors = trace.factors.iter();
    factors.try_for_each(|&factor| within(&field, factor.into(), 1e9))
}

/// Classes are indices below `classes`.
pub fn choice(what: &str, choice: &Choice, classes: usize) -> Result<()> {
    let walks: Vec<_> = match choice {
        Choice::Mix(mix) => {
            for (class, weight) in mix {
                index(&format!("{what}.choice.mix"), *class, classes)?;
                above(&format!("{what}.choice.mix weight"), *weight)?;
            }
            if mix.is_empty() {
                return refuse(format!("{what}.choice.mix is empty"));
            }
            Vec::new()
        }
        Choice::Walk(walk) => std::iter::once(walk).chain(walk.other.as_deref()).collect(),
    };
    for walk in walks {
        let n = walk.classes.len();
        let square =
            walk.transitions.len() == n && walk.transitions.iter().all(|row| row.len() == n);
        if !(1..255).contains(&n) || !square || walk.back.len() != n || walk.end.len() != n {
            return refuse(format!(
                "{what}.choice.walk: {n} states need a square table, back and end"
            ));
        }
        index(&format!("{what}.choice.walk.start"), walk.start, n)?;
        for dead_end in &walk.dead_ends {
            index(&format!("{what}.choice.walk.dead_ends"), dead_end.state, n)?;
        }
        for &class in &walk.classes {
            index(&format!("{what}.choice.walk.classes"), class, classes)?;
        }
    }
    Ok(())
}
