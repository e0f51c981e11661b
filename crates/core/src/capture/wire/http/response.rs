//! The server's side of [`Http`]: the content of a response, and its end.

use super::super::framing::Input;
use super::super::http2::Http2;
use super::super::{Exchanges, Outcome, Protocol, Side};
use super::chunked::{Chunked, Progress};
use super::head::{self, Body, Parsed};
use super::{gather, skip_line_ends, Asked, Http, State, HEAD_MAX};

impl Http {
    pub(super) fn server_data(&mut self, input: &mut Input<'_>, out: &mut dyn Exchanges) {
        if self.server.state == State::Lost
            && !self.opaque
            && head::status_line(input.bytes()).is_some()
        {
            if self.waiting.told() {
                self.response_over(out);
            }
            self.server.state = State::Head;
            self.streaming = false;
        }
        while input.len() > 0 && !self.opaque && self.http2.is_none() {
            match &mut self.server.state {
                State::Head => self.response_head(input, out),
                State::Body(rest) => {
                    let n = (*rest).min(input.len());
                    *rest -= n;
                    let over = *rest == 0;
                    input.skip(n);
                    self.response_bytes(input.time, n, out);
                    if over {
                        self.response_over(out);
                    }
                }
                State::Chunked(chunked) => {
                    let before = input.len();
                    let progress = chunked.advance(input);
                    self.response_bytes(input.time, before - input.len(), out);
                    match progress {
                        Progress::More => {}
                        Progress::Done => self.response_over(out),
                        Progress::Lost => {
                            self.server.state = State::Lost;
                            self.tell(out);
                        }
                    }
                }
                State::UntilClose | State::Lost => {
                    let n = input.len();
                    input.skip(n);
                    self.response_bytes(input.time, n, out);
                }
            }
        }
    }

    /// Bytes of the content of a response.
    fn response_bytes(&mut self, time: i64, n: u64, out: &mut dyn Exchanges) {
        if !self.streaming {
            self.waiting.bytes(time, n, out);
        }
    }

    fn response_head(&mut self, input: &mut Input<'_>, out: &mut dyn Exchanges) {
        if self.server.head.is_empty() {
            skip_line_ends(input);
            if let Parsed::Whole(head) = head::response(input.bytes()) {
                return self.response_known(&head, head.len as u64, 0, input, out);
            }
            self.server.head_begun = input.time;
        }
        if input.len() == 0 {
            return;
        }
        let before = self.server.head.len();
        let ended = gather(&mut self.server.head, input);
        let head = std::mem::take(&mut self.server.head);
        let status = head::status_line(&head);
        let known = ended.map(|_| head::response(&head));
        if let Some(Parsed::Whole(known)) = known {
            return self.response_known(&known, 0, (head.len() - before) as u64, input, out);
        }
        let whole_line = ended.is_some() || input.cut() || head.len() > HEAD_MAX;
        if status.is_some() && !whole_line {
            self.server.head = head;
            return;
        }
        // The end of the head cannot be found: only the status line and the first fields are known.
        self.server.state = State::Lost;
        let code = status.flatten();
        if code.is_some_and(|code| code < 200 && code != 101) {
            input.skip(input.len());
            return;
        }
        if code.is_some() {
            self.ask_unread(out);
            for (source, text) in head::software_so_far(&head).each() {
                out.runs(source, text);
            }
        }
        if status.is_none() && !head.is_empty() {
            out.unreadable("not an HTTP response", head.len() as u64);
        }
        if before > 0 {
            self.waiting
                .bytes(self.server.head_begun, before as u64, out);
        }
        let now = (head.len() - before) as u64 + if input.cut() { input.len() } else { 0 };
        self.waiting.bytes(input.time, now, out);
        self.outcome = code.map(outcome);
        if input.cut() {
            // A status that was not captured counts as a good one.
            self.outcome.get_or_insert(Outcome::Ok);
            input.skip(input.len());
        }
        if code == Some(101) {
            self.response_over(out);
            return self.upgrade(head::UPGRADED, input, out);
        }
        self.tell(out);
    }

    /// The response to the request that asked for HTTP/2 comes on its first stream.
    fn become_http2(&mut self, input: &mut Input<'_>, out: &mut dyn Exchanges) {
        let mut http2 = Box::new(Http2::upgraded());
        http2.data(Side::Server, input.rest(), out);
        input.skip(input.len());
        self.http2 = Some(http2);
    }

    fn upgrade(&mut self, to: &'static str, input: &mut Input<'_>, out: &mut dyn Exchanges) {
        self.become_upgraded(to, out);
        out.unreadable(to, input.len());
        input.skip(input.len());
    }

    /// A whole head: `skip` of its bytes are still in the input, `taken` were taken from it just now.
    fn response_known(
        &mut self,
        head: &head::Response<'_>,
        skip: u64,
        taken: u64,
        input: &mut Input<'_>,
        out: &mut dyn Exchanges,
    ) {
        input.skip(skip);
        if head.code < 200 && head.code != 101 {
            return;
        }
        if head.code == 101 && head.upgrade == head::TO_HTTP2 && self.waiting.len() == 1 {
            return self.become_http2(input, out);
        }
        self.ask_unread(out);
        for (source, text) in head.software.each() {
            out.runs(source, text);
        }
        self.outcome = Some(outcome(head.code));
        let early = (head.len as u64).saturating_sub(skip + taken);
        if early > 0 {
            self.waiting.bytes(self.server.head_begun, early, out);
        }
        self.waiting.bytes(input.time, skip + taken, out);
        let asked = self.waiting.front().copied().unwrap_or(Asked::Other);
        if head.code == 101 {
            self.response_over(out);
            return self.upgrade(head.upgrade, input, out);
        }
        if asked == Asked::Connect && head.code < 300 {
            self.response_over(out);
            return self.become_opaque("CONNECT tunnel", out);
        }
        if head.events && asked == Asked::Other {
            self.response_over(out);
            self.streaming = true;
        }
        let bodiless = asked == Asked::Head || head.code == 204 || head.code == 304;
        match head.body {
            _ if bodiless => self.response_over(out),
            Body::Length(0) => self.response_over(out),
            Body::Length(n) => self.server.state = State::Body(n),
            Body::Chunked => self.server.state = State::Chunked(Chunked::START),
            Body::Unsaid if self.streaming => self.server.state = State::UntilClose,
            Body::Unsaid => {
                self.server.state = State::UntilClose;
                self.tell(out);
            }
        }
    }

    /// What is known of the response; its end is not.
    pub(super) fn tell(&mut self, out: &mut dyn Exchanges) {
        if let Some(outcome) = self.outcome {
            self.waiting.tell(outcome, out);
        }
    }

    fn response_over(&mut self, out: &mut dyn Exchanges) {
        self.server.state = State::Head;
        if std::mem::take(&mut self.streaming) {
            return;
        }
        let outcome = self.outcome.take().unwrap_or(Outcome::Ok);
        self.waiting.finish(outcome, out);
    }
}

fn outcome(code: u16) -> Outcome {
    if code < 400 {
        Outcome::Ok
    } else {
        Outcome::Http(code)
    }
}
