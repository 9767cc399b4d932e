//! C179 and every door behind it: each statement and each method, by everybody who may come, is allowed or refused with the
//! code that stands here. What a user may not see answers as what is not there.
//!
//! A new statement does not compile here before it has its line, a new method fails the list of methods.

mod cases;
mod methods;
pub mod people;
mod statements;
