//! The settings of a kind of attention, with everything about a key on one line.

/// Makes the struct and its defaults from lines `pub key: type = default, range(min = least, max = most);`. The comment of a key
/// and its range, which not all keys have, are its description in the schema; `validate` of the kind checks the range.
macro_rules! settings {
    ($(#[$meta:meta])* pub struct $name:ident {
        $($(#[$doc:meta])* pub $key:ident: $type:ty = $default:expr $(, range($($range:tt)+))?;)+
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[serde(default)]
        pub struct $name {
            $($(#[$doc])* $(#[schemars(range($($range)+))])? pub $key: $type,)+
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($key: $default,)+ }
            }
        }
    };
}
