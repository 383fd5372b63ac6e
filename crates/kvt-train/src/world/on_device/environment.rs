//! NCCL's settings in the environment.

/// Why NCCL is not used although this build has it; `variable` reads the environment.
pub(super) fn refusal(variable: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let set = |name: &str| variable(name).map(|value| value.trim().to_owned());
    let value = set("KVT_NCCL").unwrap_or_default();
    let problem = match value.to_ascii_lowercase().as_str() {
        "" | "1" | "true" | "on" => None,
        "0" | "false" | "off" => Some("turns NCCL off"),
        _ => Some("is neither 1, true or on nor 0, false or off"),
    };
    if let Some(problem) = problem {
        return Some(format!(
            "`KVT_NCCL={value}` in the environment {problem}: unset it, or set it to 1, to use NCCL"
        ));
    }
    // This variable overrides the settings of a communicator.
    let value = set("NCCL_COMM_BLOCKING").unwrap_or_default();
    if !matches!(value.as_str(), "" | "0") {
        return Some(format!(
            "`NCCL_COMM_BLOCKING={value}` in the environment makes a process wait for the others within NCCL, even if one of them \
             has failed: unset it"
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nccl_can_be_turned_off_and_must_not_block() {
        let refused = |name: &str, value: &str| {
            refusal(&|asked| (asked == name).then(|| value.to_owned())).unwrap_or_default()
        };
        assert_eq!(refusal(&|_| None), None);
        for value in ["", "1", " 1 ", "true", "on", "True", "ON"] {
            assert_eq!(refused("KVT_NCCL", value), "");
        }
        for (value, what) in [
            ("0", "turns NCCL off"),
            ("off", "turns NCCL off"),
            ("False", "turns NCCL off"),
            ("yes", "is neither 1, true or on nor 0, false or off"),
            ("2", "is neither 1, true or on nor 0, false or off"),
        ] {
            let reason = refused("KVT_NCCL", value);
            let start = format!("`KVT_NCCL={value}` in the environment {what}: unset it");
            assert!(reason.starts_with(&start), "{reason}");
        }
        for value in ["", "0"] {
            assert_eq!(refused("NCCL_COMM_BLOCKING", value), "");
        }
        for value in ["1", " 1", "0x1"] {
            let reason = refused("NCCL_COMM_BLOCKING", value);
            assert!(reason.ends_with("unset it"), "{reason}");
        }
    }
}
