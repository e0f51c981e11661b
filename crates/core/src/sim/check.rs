//! Refuses a plan that cannot be run before anything happens.

use super::plan::{
    Adaptive, Arrivals, Call, Connector, Effect, Endpoint, Limit, Plan, Policy, Server, Step, Syn,
};
use super::queue::ID_MAX;
use crate::error::Result;
use crate::workload::check::{
    above, arrivals, choice, factors, index, lasts, refuse, time, within, LENGTH_MAX,
};

/// The tried candidates of a call are bits of a word.
const CANDIDATES_MAX: usize = 32;
/// Calls that begin together.
const JOINED: std::ops::RangeInclusive<usize> = 2..=1000;
/// A server has a queue for each.
const RANK_MAX: u32 = 63;

pub fn check(plan: &Plan) -> Result<()> {
    if !(1..LENGTH_MAX).contains(&plan.duration) {
        return refuse(format!(
            "duration must be from 1 ns to 6 days, got {} ns",
            plan.duration
        ));
    }
    for (what, value) in [
        ("latency", plan.latency),
        ("sample", plan.sample),
        ("record_from", plan.record_from),
        ("sample_work", plan.sample_work),
    ] {
        lasts(what, value)?;
    }
    nodes(plan)?;
    groups(plan)?;
    classes(plan)?;
    servers(plan)?;
    circles(plan)?;
    workloads(plan)?;
    stalls(plan)?;
    capacities(plan)
}

fn nodes(plan: &Plan) -> Result<()> {
    for (i, node) in plan.nodes.iter().enumerate() {
        above(&format!("nodes[{i}].cores"), node.cores)?;
        if let Some(governor) = &node.governor {
            if governor.hz.is_empty() || governor.period <= 0 {
                return refuse(format!(
                    "nodes[{i}].governor needs clock rates and a period above 0"
                ));
            }
            if governor.start >= governor.hz.len() || governor.first < 0 {
                return refuse(format!(
                    "nodes[{i}].governor needs a start within its clock rates, and a first reading of 0 or later"
                ));
            }
            for hz in &governor.hz {
                above(&format!("nodes[{i}].governor.hz"), *hz)?;
            }
        }
        if let Some(disk) = &node.disk {
            above(
                &format!("nodes[{i}].disk.bytes_per_second"),
                disk.bytes_per_second,
            )?;
            let blocks = disk.flush.iter().map(|f| f.blocks);
            for blocks in blocks.chain(disk.writeback.iter().map(|w| w.blocks)) {
                within(&format!("nodes[{i}].disk: blocks"), blocks, 1.0)?;
            }
            if let Some(flush) = &disk.flush {
                lasts(&format!("nodes[{i}].disk.flush.first"), flush.first)?;
            }
            let periods = disk
                .flush
                .iter()
                .map(|f| f.period)
                .chain(disk.writeback.iter().map(|w| w.period));
            if periods.into_iter().any(|period| period <= 0) {
                return refuse(format!("nodes[{i}].disk: a period must be above 0"));
            }
        }
    }
    Ok(())
}

fn groups(plan: &Plan) -> Result<()> {
    for (i, group) in plan.groups.iter().enumerate() {
        index(&format!("groups[{i}].node"), group.node, plan.nodes.len())?;
        above(&format!("groups[{i}].cores"), group.cores)?;
        above(&format!("groups[{i}].weight"), group.weight)?;
        if let Some(inflation) = &group.inflation {
            for value in [inflation.free, inflation.slope, inflation.power] {
                within(&format!("groups[{i}].inflation"), value, 1e9)?;
            }
        }
        if group.quota.as_ref().is_some_and(|q| {
            q.quota <= 0 || q.period <= 0 || q.burst < 0 || q.first.is_some_and(|first| first <= 0)
        }) {
            return refuse(format!(
                "groups[{i}].quota: quota, period and first must be above 0, burst at least 0"
            ));
        }
    }
    Ok(())
}

fn classes(plan: &Plan) -> Result<()> {
    for (i, class) in plan.classes.iter().enumerate() {
        if class.rank > RANK_MAX {
            return refuse(format!(
                "classes[{i}].rank: at most {RANK_MAX}, got {}",
                class.rank
            ));
        }
        if let Some(servlet) = class.servlet {
            let what = format!("classes[{i}].servlet");
            index(&what, servlet, plan.classes.len())?;
        }
    }
    Ok(())
}

fn servers(plan: &Plan) -> Result<()> {
    for (i, server) in plan.servers.iter().enumerate() {
        index(
            &format!("servers[{i}].group"),
            server.group,
            plan.groups.len(),
        )?;
        if plan.tiers > 0 {
            let tiers = plan.tiers as usize;
            index(&format!("servers[{i}].tier"), server.tier, tiers)?;
            let first = server.first.unwrap_or(server.tier);
            index(&format!("servers[{i}].first"), first, tiers)?;
        }
        if server.programs.len() != plan.classes.len() {
            return refuse(format!(
                "servers[{i}].programs must have one entry for each class"
            ));
        }
        if server.processes == 0 {
            return refuse(format!("servers[{i}].processes must be above 0"));
        }
        if server.logs == 0 {
            return refuse(format!("servers[{i}].logs must be above 0"));
        }
        if let Some(spawn) = &server.spawn {
            lasts(&format!("servers[{i}].spawn.after"), spawn.after)?;
            lasts(&format!("servers[{i}].spawn.work"), spawn.work)?;
            lasts(
                &format!("servers[{i}].spawn.retire_after"),
                spawn.retire_after,
            )?;
        }
        if let Some(heap) = &server.heap {
            above(&format!("servers[{i}].heap.threads"), heap.threads)?;
            above(&format!("servers[{i}].heap.young_bytes"), heap.young_bytes)?;
            if !(0.0..=1.0).contains(&heap.filled) {
                return refuse(format!(
                    "servers[{i}].heap.filled: from 0 to 1, got {}",
                    heap.filled
                ));
            }
            for kind in std::iter::once(&heap.young).chain(&heap.old) {
                lasts(&format!("servers[{i}].heap: base"), kind.base)?;
                lasts(&format!("servers[{i}].heap: per_live"), kind.per_live)?;
            }
        }
        if let Some(adaptive) = &server.limit {
            limit(&format!("servers[{i}].limit"), adaptive)?;
        }
        for (j, connector) in server.connectors.iter().enumerate() {
            calls(plan, &format!("servers[{i}].connectors[{j}]"), connector)?;
        }
        let held = server
            .connectors
            .iter()
            .filter(|c| c.pool.as_ref().is_some_and(|p| p.for_visit));
        if held.count() > 1 {
            return refuse(format!(
                "servers[{i}]: only one of its pools can be held for a whole visit"
            ));
        }
        programs(plan, i, server)?;
    }
    Ok(())
}

fn limit(what: &str, limit: &Limit) -> Result<()> {
    if limit.min == 0 || limit.max < limit.min {
        return refuse(format!(
            "{what}: min must be above 0 and at most max, got {} and {}",
            limit.min, limit.max
        ));
    }
    match limit.kind {
        Adaptive::Aimd { timeout, backoff } => {
            lasts(&format!("{what}.timeout"), timeout)?;
            within(&format!("{what}.backoff"), backoff, 1.0)
        }
        Adaptive::Gradient {
            tolerance,
            queue,
            smoothing,
            window: _,
        } => {
            within(&format!("{what}.tolerance"), tolerance, 1e9)?;
            within(&format!("{what}.queue"), queue, 1e9)?;
            within(&format!("{what}.smoothing"), smoothing, 1.0)
        }
    }
}

fn calls(plan: &Plan, what: &str, connector: &Connector) -> Result<()> {
    syn(what, &connector.syn)?;
    lasts(&format!("{what}.recover"), connector.recover)?;
    lasts(&format!("{what}.hedge"), connector.hedge)?;
    if connector.hedge > 0 && connector.pool.as_ref().is_some_and(|pool| pool.for_visit) {
        return refuse(format!(
            "{what}: a call on a connection that its visit holds cannot be sent a second time"
        ));
    }
    match (&connector.endpoint, &connector.policy) {
        (Endpoint::Poll { step, timeout }, _) if *step <= 0 || *timeout < 0 => {
            return refuse(format!(
                "{what}.endpoint: a step above 0 and a timeout from 0 on"
            ));
        }
        (_, Policy::PeakEwma { decay }) if *decay <= 0 => {
            return refuse(format!("{what}.policy: decay must be above 0"));
        }
        _ => {}
    }
    if !(1..=CANDIDATES_MAX).contains(&connector.candidates.len()) {
        return refuse(format!(
            "{what}.candidates: from 1 to {CANDIDATES_MAX} servers"
        ));
    }
    for &candidate in &connector.candidates {
        index(&format!("{what}.candidates"), candidate, plan.servers.len())?;
    }
    if connector.pool.as_ref().is_some_and(|pool| pool.size == 0) {
        return refuse(format!("{what}.pool.size must be above 0"));
    }
    Ok(())
}

/// Attempts are counted in a byte.
fn syn(what: &str, syn: &Syn) -> Result<()> {
    lasts(&format!("{what}.syn.give_up"), syn.give_up)?;
    for repeats in [&syn.repeats, &syn.data_repeats] {
        let fits = repeats.iter().all(|t| (1..LENGTH_MAX).contains(t));
        if !fits || !repeats.is_sorted() || repeats.len() > usize::from(u8::MAX) {
            return refuse(format!(
                "{what}.syn: repeats must be times above 0 in order, at most 255, got {repeats:?}"
            ));
        }
    }
    Ok(())
}

fn programs(plan: &Plan, i: usize, server: &Server) -> Result<()> {
    for program in server.programs.iter().flatten() {
        index(
            &format!("servers[{i}].programs"),
            *program,
            plan.programs.len(),
        )?;
        let what = format!("programs[{program}]");
        for step in &plan.programs[*program as usize] {
            match step {
                Step::Compute(time) | Step::Wait(time) => self::time(&what, time)?,
                Step::Call(_) => {}
                Step::Join(joined) if JOINED.contains(&joined.len()) => {}
                Step::Join(joined) => {
                    return refuse(format!(
                        "{what}.join must have from {} to {} calls, got {}",
                        JOINED.start(),
                        JOINED.end(),
                        joined.len()
                    ));
                }
            }
            for one in step.calls() {
                call(&format!("{what}.call"), plan, server, one)?;
            }
        }
    }
    Ok(())
}

fn call(what: &str, plan: &Plan, server: &Server, call: &Call) -> Result<()> {
    index(
        &format!("{what}.connector"),
        call.connector,
        server.connectors.len(),
    )?;
    index(&format!("{what}.class"), call.class, plan.classes.len())?;
    if !(0.0..1e6).contains(&call.count) {
        return refuse(format!(
            "{what}.count must be from 0 to a million, got {}",
            call.count
        ));
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq)]
enum Seen {
    Not,
    Below,
    Done,
}

/// A class that always makes a server call itself in the end is never answered.
fn circles(plan: &Plan) -> Result<()> {
    let mut seen = vec![vec![Seen::Not; plan.classes.len()]; plan.servers.len()];
    for server in 0..plan.servers.len() {
        for class in 0..plan.classes.len() {
            descend(plan, server, class, &mut seen)?;
        }
    }
    Ok(())
}

fn descend(plan: &Plan, server: usize, class: usize, seen: &mut [Vec<Seen>]) -> Result<()> {
    match seen[server][class] {
        Seen::Done => return Ok(()),
        Seen::Below => {
            return refuse(format!(
            "servers[{server}]: its calls for classes[{class}] come back to it for the same class"
        ))
        }
        Seen::Not => seen[server][class] = Seen::Below,
    }
    let caller = &plan.servers[server];
    let program = caller.programs[class].map_or(&[][..], |p| &plan.programs[p as usize]);
    for call in program.iter().flat_map(Step::calls) {
        let surely = call.count >= 1.0 || call.all;
        let connector = &caller.connectors[call.connector as usize];
        for &to in connector.candidates.iter().filter(|_| surely) {
            descend(plan, to as usize, call.class as usize, seen)?;
        }
    }
    seen[server][class] = Seen::Done;
    Ok(())
}

fn workloads(plan: &Plan) -> Result<()> {
    for (i, workload) in plan.workloads.iter().enumerate() {
        let what = format!("workloads[{i}]");
        if workload.entries.is_empty() {
            return refuse(format!("{what}.entries is empty"));
        }
        for &entry in &workload.entries {
            index(&format!("{what}.entries"), entry, plan.servers.len())?;
        }
        choice(&what, &workload.choice, plan.classes.len())?;
        for (name, value) in [
            ("timeout", workload.timeout),
            ("hedge", workload.hedge),
            ("retry_pause", workload.retry_pause),
            ("begin", workload.begin),
        ] {
            lasts(&format!("{what}.{name}"), value)?;
        }
        if let Some(share) = workload.retry_budget {
            within(&format!("{what}.retry_budget"), share, 1.0)?;
        }
        if workload.retried_as_one && !workload.embedded.is_empty() {
            return refuse(format!(
                "{what}: what a page embeds is not counted with its repetitions"
            ));
        }
        syn(&what, &workload.syn)?;
        for &class in &workload.embedded {
            index(&format!("{what}.embedded"), class, plan.classes.len())?;
        }
        if matches!(workload.arrivals, Arrivals::Closed { clients, .. } if clients > ID_MAX) {
            return refuse(format!("{what}: at most {ID_MAX} clients"));
        }
        arrivals(&what, &workload.arrivals, plan.classes.len())?;
        if let Arrivals::Trace(trace) = &workload.arrivals {
            factors(&what, trace, plan.tiers)?;
        }
    }
    Ok(())
}

fn capacities(plan: &Plan) -> Result<()> {
    for (i, capacity) in plan.capacities.iter().enumerate() {
        let what = format!("capacities[{i}]");
        index(&format!("{what}.group"), capacity.group, plan.groups.len())?;
        let times = &capacity.times;
        let in_order = times.windows(2).all(|pair| pair[0] < pair[1]);
        if !in_order || times.len() != capacity.left.len() {
            return refuse(format!(
                "{what}: times must be in order, with a share for each"
            ));
        }
        for &time in times {
            lasts(&format!("{what}.times"), time)?;
        }
        for &left in &capacity.left {
            within(&format!("{what}.left"), left, 1.0)?;
        }
    }
    Ok(())
}

fn stalls(plan: &Plan) -> Result<()> {
    for (i, stall) in plan.stalls.iter().enumerate() {
        let what = format!("stalls[{i}]");
        if !(0 <= stall.begin && stall.begin < stall.end && stall.end < LENGTH_MAX) {
            return refuse(format!(
                "{what} must begin at 0 or later and end after it begins"
            ));
        }
        match &stall.effect {
            &Effect::Slow { group, left } => {
                index(&format!("{what}.group"), group, plan.groups.len())?;
                above(&format!("{what}.left"), left)?;
            }
            &Effect::Freeze { group } | &Effect::Burn { group, .. } | &Effect::Memory { group } => {
                index(&format!("{what}.group"), group, plan.groups.len())?;
            }
            &Effect::Iowait { node, blocks } => {
                index(&format!("{what}.node"), node, plan.nodes.len())?;
                within(&format!("{what}.blocks"), blocks, 1.0)?;
            }
            &Effect::Restart { server } => {
                index(&format!("{what}.server"), server, plan.servers.len())?;
            }
            Effect::Lock { server, classes } => {
                index(&format!("{what}.server"), *server, plan.servers.len())?;
                for &class in classes {
                    index(&format!("{what}.classes"), class, plan.classes.len())?;
                }
            }
            Effect::PacketLoss {
                server,
                senders,
                share,
            } => {
                for &one in senders.iter().chain([server]) {
                    index(&format!("{what}.senders"), one, plan.servers.len())?;
                }
                within(&format!("{what}.share"), *share, 1.0)?;
            }
        }
    }
    Ok(())
}
