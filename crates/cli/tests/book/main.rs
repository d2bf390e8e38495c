//! The book, `docs/`: its table of contents is complete, its links lead somewhere, and its tutorials do what they say.

#[path = "../means/mod.rs"]
mod means;
mod pages;
mod tutorials;
