//! The settings of a kind of attention, with everything about a key on one line.

/// Makes the struct, its defaults and the check of its ranges from lines
/// `pub key: type = default, range(min = least, max = most);`. The comment of a key and its range, which not all keys have, are its
/// description in the schema.
macro_rules! settings {
    (@range $least:tt) => { $least.. };
    (@range $least:tt $most:tt) => { $least..=$most };
    (@text $least:tt) => { concat!("at least ", stringify!($least)) };
    (@text $least:tt $most:tt) => { concat!("in [", stringify!($least), ", ", stringify!($most), "]") };
    ($(#[$meta:meta])* pub struct $name:ident {
        $(
            $(#[$doc:meta])*
            pub $key:ident: $type:ty = $default:expr $(, range(min = $least:tt $(, max = $most:tt)?))?;
        )+
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[serde(default)]
        pub struct $name {
            $($(#[$doc])* $(#[schemars(range(min = $least $(, max = $most)?))])? pub $key: $type,)+
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($key: $default,)+ }
            }
        }

        impl crate::Ranged for $name {
            fn check_ranges(&self) -> Result<(), crate::AttentionError> {
                $($(
                    if !settings!(@range $least $($most)?).contains(&self.$key) {
                        return Err(crate::AttentionError::Range {
                            key: stringify!($key),
                            range: settings!(@text $least $($most)?),
                        });
                    }
                )?)+
                Ok(())
            }
        }
    };
}
