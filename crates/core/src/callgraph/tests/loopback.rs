//! Servers at loopback addresses and their machines.

use super::*;

/// Servers with the host of each; hosts by their addresses.
fn placed(servers: &[(&str, u32)], hosts: &[&str]) -> Names {
    Names {
        hosts: hosts.iter().map(|host| host.to_string()).collect(),
        ..named(servers)
    }
}

const OUTER: u32 = 0;
const LOOPBACK: u32 = 1;
const CLIENT: u32 = 2;
const ELSEWHERE: u32 = 3;
const HOSTS: [&str; 4] = ["10.0.0.1", "127.0.0.1", "10.0.0.7", "10.0.0.8"];

/// `count` requests 100 ms apart, each a chain of (server, caller's host) from the outside in.
fn chains(count: i64, chain: &[(u32, u32)]) -> Vec<Visit> {
    let request = |n: i64| {
        let begin = n * 100 * MS + n * 7919 * 1000 % (20 * MS);
        (0..).zip(chain).map(move |(depth, &(server, caller))| {
            (
                server,
                caller,
                begin + depth * MS,
                begin + (40 - depth) * MS,
            )
        })
    };
    departing((0..count).flat_map(request))
}

fn machines(report: &Report) -> Vec<(&str, &str)> {
    report
        .machines
        .iter()
        .map(|(server, host)| (server.as_str(), host.as_str()))
        .collect()
}

#[test]
fn an_application_behind_a_proxy_of_the_same_machine_is_called_by_it() {
    let names = placed(&[("web", OUTER), ("app", LOOPBACK)], &HOSTS);
    for count in [5, 40, 9000] {
        let (linked, report) = link(chains(count, &[(0, CLIENT), (1, LOOPBACK)]), &names);
        assert_eq!(edges(&report), [("web", "app")], "{count}");
        assert_eq!(machines(&report), [("app", "10.0.0.1")]);
        assert_eq!(report.requests, count as u64);
        let owned = linked
            .iter()
            .filter(|visit| visit.server == 1 && visit.parent != NO_ID);
        assert_eq!(owned.count() as i64, count);
    }
}

#[test]
fn the_innermost_caller_determines_the_machine() {
    // A balancer on another machine, with visits around those of the web server; a database behind
    // the application.
    let servers = [
        ("balancer", ELSEWHERE),
        ("web", OUTER),
        ("app", LOOPBACK),
        ("db", LOOPBACK),
    ];
    let names = placed(&servers, &HOSTS);
    let chain = [(0, CLIENT), (1, ELSEWHERE), (2, LOOPBACK), (3, LOOPBACK)];
    let (_, report) = link(chains(60, &chain), &names);
    assert_eq!(
        edges(&report),
        [("app", "db"), ("balancer", "web"), ("web", "app")]
    );
    assert_eq!(machines(&report), [("app", "10.0.0.1"), ("db", "10.0.0.1")]);
    assert_eq!(
        (report.requests, report.entries),
        (60, vec!["balancer".to_string()])
    );
}

#[test]
fn a_call_from_the_outer_address_is_made_by_the_server_at_the_loopback_one() {
    let servers = [("web", OUTER), ("app", LOOPBACK), ("db", ELSEWHERE)];
    let names = placed(&servers, &HOSTS);
    let (_, report) = link(
        chains(60, &[(0, CLIENT), (1, LOOPBACK), (2, OUTER)]),
        &names,
    );
    assert_eq!(edges(&report), [("app", "db"), ("web", "app")]);
    // No server listens at the outer address: only the calls come from there.
    let names = placed(&[("app", LOOPBACK), ("db", ELSEWHERE)], &HOSTS);
    let (_, report) = link(chains(60, &[(0, LOOPBACK), (1, OUTER)]), &names);
    assert_eq!(edges(&report), [("app", "db")]);
    assert_eq!(machines(&report), [("app", "10.0.0.1")]);
}

#[test]
fn what_chance_explains_joins_nothing() {
    let names = placed(&[("web", OUTER), ("app", LOOPBACK)], &HOSTS);
    // Two calls inside; or a job at the loopback address that is unrelated to the requests.
    let (_, report) = link(chains(2, &[(0, CLIENT), (1, LOOPBACK)]), &names);
    assert_eq!((machines(&report), report.requests), (vec![], 4));
    let web = (0..300i64).map(|n| (0, CLIENT, n * 100 * MS, n * 100 * MS + 50 * MS));
    let job = (0..300i64).map(|n| {
        let begin = n * 97 * MS;
        (1, LOOPBACK, begin, begin + MS)
    });
    let (_, report) = link(departing(web.chain(job)), &names);
    assert_eq!((machines(&report), report.requests), (vec![], 600));
}

#[test]
fn two_machines_may_have_a_loopback_address_each() {
    let servers = [
        ("web 1", OUTER),
        ("web 2", ELSEWHERE),
        ("app 1", LOOPBACK),
        ("app 2", LOOPBACK),
    ];
    let names = placed(&servers, &HOSTS);
    let one = chains(60, &[(0, CLIENT), (2, LOOPBACK)]);
    let two = chains(60, &[(1, CLIENT), (3, LOOPBACK)])
        .into_iter()
        .map(|visit| Visit {
            visit: visit.visit + 1000,
            sent: visit.sent + 53 * MS,
            arrival: visit.arrival + 53 * MS,
            first_byte: visit.first_byte + 53 * MS,
            departure: visit.departure + 53 * MS,
            ..visit
        });
    let (_, report) = link(one.into_iter().chain(two), &names);
    assert_eq!(edges(&report), [("web 1", "app 1"), ("web 2", "app 2")]);
    assert_eq!(
        machines(&report),
        [("app 1", "10.0.0.1"), ("app 2", "10.0.0.8")]
    );
}

#[test]
fn a_machine_may_have_several_outer_addresses() {
    let servers = [("web", OUTER), ("web again", ELSEWHERE), ("app", LOOPBACK)];
    let names = placed(&servers, &HOSTS);
    let one = chains(60, &[(0, CLIENT), (2, LOOPBACK)]);
    let two = chains(60, &[(1, CLIENT), (2, LOOPBACK)])
        .into_iter()
        .map(|visit| Visit {
            visit: visit.visit + 1000,
            sent: visit.sent + 53 * MS,
            arrival: visit.arrival + 53 * MS,
            first_byte: visit.first_byte + 53 * MS,
            departure: visit.departure + 53 * MS,
            ..visit
        });
    let (_, report) = link(one.into_iter().chain(two), &names);
    assert_eq!(edges(&report), [("web", "app"), ("web again", "app")]);
    assert_eq!(report.requests, 120);
}

#[test]
fn servers_at_several_loopback_addresses_are_on_one_machine_if_they_call_each_other() {
    let hosts = ["127.0.0.11", "127.0.0.12", "10.0.0.7", "127.0.0.13"];
    let servers = [("web", 0), ("app", 1), ("other", 3)];
    let names = placed(&servers, &hosts);
    // The web server calls from its own address, or from one that no server listens at.
    for caller in [0, 3] {
        let (_, report) = link(chains(60, &[(0, CLIENT), (1, caller)]), &names);
        assert_eq!(edges(&report), [("web", "app")]);
        assert_eq!(report.requests, 60);
    }
    let (_, report) = link(chains(2, &[(0, CLIENT), (1, 0)]), &names);
    assert_eq!((edges(&report), report.requests), (vec![], 4), "chance");
}

/// A server asks another one up to four times, and gives up each attempt after 40 ms. The other one works on until it
/// finds the connection closed. For a third of the time, it answers only the last attempt, or none.
#[test]
fn attempts_that_a_caller_gave_up_do_not_hide_that_it_calls() {
    let mut names = placed(&[("mid", LOOPBACK), ("back", LOOPBACK)], &HOSTS);
    names.statuses.push("reset".to_string());
    let mut random = Random(7);
    let mut stays = Vec::new();
    for n in 0..600i64 {
        let begin = n * 6 * MS + random.below(5) as i64 * MS;
        let given_up = if n < 400 { 0 } else { 4 - n % 2 };
        let answered = given_up < 4;
        let end = begin + given_up * 41 * MS + if answered { 22 * MS } else { 0 };
        stays.push((0, LOOPBACK, begin, end + MS, 0));
        for attempt in 0..given_up {
            let sent = begin + MS / 2 + attempt * 41 * MS;
            let until = sent + 43 * MS + random.below(100) as i64 * MS;
            stays.push((1, LOOPBACK, sent, until, 1));
        }
        if answered {
            let sent = begin + MS / 2 + given_up * 41 * MS;
            stays.push((1, LOOPBACK, sent, sent + 16 * MS, 0));
        }
    }
    stays.sort_by_key(|stay| stay.3);
    let visits = (1..)
        .zip(&stays)
        .map(|(id, &(server, caller, begin, end, status))| Visit {
            status,
            ..stay(id, server, caller, begin, end)
        });
    let (_, report) = link(visits, &names);
    assert_eq!(edges(&report), [("mid", "back")]);
    assert_eq!(report.entries, ["mid"]);
}

/// Requests hold all sixteen threads of an application while a database, which answers nothing else, answers their
/// queries for two seconds. Others wait for a thread meanwhile, so they lie inside queries, too.
#[test]
fn a_server_that_is_called_once_is_no_caller() {
    let names = placed(&[("app", LOOPBACK), ("db", LOOPBACK)], &HOSTS);
    let mut stays = Vec::new();
    for n in 0..2000i64 {
        let begin = n * 7 * MS;
        let during = (7000..9000).contains(&(begin / MS));
        let held = during && begin / MS < 7000 + 16 * 7;
        let end = match (during, held) {
            (false, _) => begin + 5 * MS,
            (true, true) => 9000 * MS + n % 16 * MS,
            (true, false) => 8800 * MS + n % 100 * MS,
        };
        stays.push((0, LOOPBACK, begin, end));
        if held {
            stays.push((1, LOOPBACK, begin + MS, end - MS));
        }
    }
    let (_, report) = link(departing(stays.into_iter()), &names);
    assert_eq!(edges(&report), [("app", "db")]);
    assert_eq!(report.requests, 2000);
}

#[test]
fn a_few_long_visits_that_cover_nearly_all_the_time_call_nobody() {
    let names = placed(&[("app", LOOPBACK), ("console", LOOPBACK)], &HOSTS);
    let requests = (0..60).map(|n| {
        let begin = SECOND + n * 100 * MS + n * 7919 * 1000 % (20 * MS);
        (0, LOOPBACK, begin, begin + 10 * MS)
    });
    let console = [(0, 950), (950, 4000), (4000, 7500)];
    let console = console.map(|(begin, end)| (1, LOOPBACK, begin * MS, end * MS));
    let (linked, report) = link(departing(requests.chain(console)), &names);
    assert!(!edges(&report).contains(&("console", "app")));
    let requests = linked.iter().filter(|visit| visit.server == 0);
    assert!(requests.clone().all(|visit| visit.request != NO_ID) && requests.count() == 60);
}
