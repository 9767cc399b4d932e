//! Black-box tests against the real binary over the wire: one binary, since each one links everything.

mod assignment;
mod bad_input;
mod command_line;
mod crash;
mod examples;
mod full_disk;
mod lifecycle;
mod offsets;
mod push;
mod real_input;
mod replay;
mod support;
