//! Who may do what: tokens and their rights.
//!
//! A token is a random text that a client sends with each request
//! (`Authorization: Bearer TOKEN`). A node knows only its SHA-256, so who reads the
//! tokens file cannot use what is in it. A hash without salt and rounds is enough,
//! because a token is 256 random bits, which nobody guesses; and it takes a third of a
//! microsecond, where one made for passwords takes many milliseconds of each request.
//!
//! - `rights`: what a token may do, and what a request needs.
//! - `key_set`: the keys that a right is limited to.
//! - `table`: all tokens in force, found by their hashes.
//! - `tokens_file`: the file of them.
//! - `bearer`: the header field.
//! - `new_token`: makes one.
//!
//! Nothing here reads a file, a clock or a socket.

mod bearer;
#[doc(hidden)]
pub mod fuzzing;
mod key_set;
mod new_token;
mod rights;
mod token_table;
mod tokens_file;

pub use bearer::{TOKEN_BYTES_MAX, bearer};
pub use key_set::KeySet;
pub use new_token::{NewToken, Stanza, TOKEN_PREFIX};
pub use rights::{Need, RequestedKeys, Rights};
pub use token_table::{Token, TokenHash, TokenTable};
pub use tokens_file::{
    FILE_BYTES_MAX, FileError, NAME_BYTES_MAX, PREFIXES_MAX, TOKENS_MAX, check_name, read,
};
