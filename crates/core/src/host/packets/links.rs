//! The existing interfaces. The kernel reports when one appears or disappears (rtnetlink); an
//! interface that is created again has its name, but another number.

use std::io;
use std::os::fd::OwnedFd;

use crate::host::options::Interface;
use crate::host::sys;

/// `RTMGRP_LINK` of linux/rtnetlink.h: interfaces that appear, disappear, or change.
const OF_LINKS: u32 = 1;

/// In the network namespace of the events.
pub struct Links {
    events: OwnedFd,
    links: Vec<Link>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Link {
    name: String,
    number: Option<u32>,
}

/// The kernel's events about interfaces of this thread's network namespace.
pub fn events() -> io::Result<OwnedFd> {
    let events = sys::socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE)?;
    sys::bind_netlink(&events, OF_LINKS)?;
    Ok(events)
}

impl Links {
    /// Subscribe to `events` before reading the interfaces here, so that no change is missed in
    /// between.
    pub fn new(interfaces: &[Interface], events: OwnedFd) -> Links {
        let link = |interface: &Interface| Link {
            number: sys::interface_number(&events, &interface.name),
            name: interface.name.clone(),
        };
        Links {
            links: interfaces.iter().map(link).collect(),
            events,
        }
    }

    /// Readable when something may have changed.
    pub fn events(&self) -> &OwnedFd {
        &self.events
    }

    /// Numbers of the existing interfaces.
    pub fn numbers(&self) -> Vec<u32> {
        self.links.iter().filter_map(|link| link.number).collect()
    }

    pub fn names(&self) -> String {
        let names: Vec<&str> = self.links.iter().map(|link| link.name.as_str()).collect();
        names.join(", ")
    }

    /// Names of the missing interfaces.
    pub fn missing(&self) -> Vec<&str> {
        let missing = self.links.iter().filter(|link| link.number.is_none());
        missing.map(|link| link.name.as_str()).collect()
    }

    /// Changes since the last check, as sentences.
    pub fn look(&mut self) -> Vec<String> {
        self.forget_events();
        let events = &self.events;
        let changed = |link: &mut Link| {
            let now = sys::interface_number(events, &link.name);
            let before = std::mem::replace(&mut link.number, now);
            told(&link.name, before, now)
        };
        self.links.iter_mut().filter_map(changed).collect()
    }

    /// The messages only show that it is time to check. If the socket had no room for some, it
    /// reports an error, once.
    fn forget_events(&self) {
        let mut event = [0; 64];
        while match sys::receive(&self.events, &mut event) {
            Ok(_) => true,
            Err(error) => error.raw_os_error() == Some(libc::ENOBUFS),
        } {}
    }
}

fn told(name: &str, before: Option<u32>, now: Option<u32>) -> Option<String> {
    match (before, now) {
        (Some(_), None) => Some(format!(
            "{name} is gone: its packets are missing until there is an interface of that name again"
        )),
        (None, Some(_)) => Some(format!(
            "{name} is there: its packets are read from here on"
        )),
        (Some(before), Some(now)) if before != now => Some(format!(
            "{name} was removed and made again: packets of the moment between are missing"
        )),
        _ => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn of(names: &[&str]) -> Links {
        let interface = |name: &&str| Interface {
            name: (*name).to_owned(),
            netns: None,
        };
        let interfaces: Vec<Interface> = names.iter().map(interface).collect();
        Links::new(&interfaces, events().unwrap())
    }

    #[test]
    fn loopback_is_there_and_what_is_not_is_missing() {
        let mut links = of(&["lo", "never-there"]);
        assert_eq!(links.numbers(), [1]);
        assert_eq!(links.missing(), ["never-there"]);
        assert_eq!(links.look(), [""; 0]);
    }

    #[test]
    fn a_name_of_no_interface_is_missing() {
        for name in ["", "a-name-longer-than-fifteen", "nul\0"] {
            assert_eq!(of(&[name]).missing(), [name]);
        }
    }

    #[test]
    fn new_removed_and_replaced_interfaces_are_reported() {
        assert!(told("eth0", Some(2), None).unwrap().contains("gone"));
        assert!(told("eth0", None, Some(3)).unwrap().contains("there"));
        assert!(told("eth0", Some(2), Some(3)).unwrap().contains("again"));
        assert_eq!(told("eth0", Some(2), Some(2)), None);
        assert_eq!(told("eth0", None, None), None);
    }
}
