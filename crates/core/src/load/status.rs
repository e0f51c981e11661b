//! How a request ended.

/// The code of an HTTP response, or one of the numbers below 100 here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status(pub u16);

impl Status {
    /// Nothing listens at the server's port.
    pub const REFUSED: Status = Status(1);
    /// The kernel gave up connecting or sending.
    pub const TIMEOUT: Status = Status(2);
    pub const RESET: Status = Status(3);
    /// The client gave up, or the run was over.
    pub const ABANDONED: Status = Status(4);
    /// The connection was closed before the complete response had arrived.
    pub const TRUNCATED: Status = Status(5);
    /// The bytes are not an HTTP response, or its head has more than 64 KiB.
    pub const MALFORMED: Status = Status(6);
    pub const UNREACHABLE: Status = Status(7);

    pub fn is_ok(self) -> bool {
        (200..400).contains(&self.0)
    }

    pub fn is_answer(self) -> bool {
        self.0 >= 100
    }

    /// The status in the record (docs/reference/dataset.md).
    pub fn name(self) -> String {
        match self {
            Status::REFUSED => "refused".into(),
            Status::TIMEOUT => "timeout".into(),
            Status::RESET => "reset".into(),
            Status::ABANDONED => "abandoned".into(),
            Status::TRUNCATED => "error-truncated".into(),
            Status::MALFORMED => "error-malformed".into(),
            Status::UNREACHABLE => "error-unreachable".into(),
            ok if ok.is_ok() => "ok".into(),
            Status(code) => code.to_string(),
        }
    }
}

impl From<rustix::io::Errno> for Status {
    /// The error that ended a connection.
    fn from(error: rustix::io::Errno) -> Self {
        use rustix::io::Errno;
        match error {
            Errno::CONNREFUSED => Status::REFUSED,
            Errno::TIMEDOUT => Status::TIMEOUT,
            Errno::HOSTUNREACH | Errno::NETUNREACH | Errno::NETDOWN | Errno::ACCESS => {
                Status::UNREACHABLE
            }
            _ => Status::RESET,
        }
    }
}
