//! `kvt devices`

use super::output;
use kvt_train::device::{self, Kind};

pub(super) fn run() -> anyhow::Result<()> {
    let mut lines = Vec::new();
    for kind in Kind::ALL {
        match device::find(kind) {
            Ok(devices) => {
                let devices = devices.iter();
                lines.extend(devices.map(|d| format!("{:<8}  {}", d.name, d.description)));
            }
            Err(reason) => lines.push(format!("{:<8}  - {reason}", kind.to_string())),
        }
    }
    if let Some(auto) = device::automatic() {
        lines.push(format!("\n`auto` is `{}`", auto.name));
    }
    output::print(&lines.join("\n"))
}
