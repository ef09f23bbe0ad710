//! Pages in browsers: the console, and pages of other origins.

mod browsers;
mod console;
mod cors;
mod web_pages;
