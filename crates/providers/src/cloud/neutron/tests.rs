mod choosing;
mod entering;
mod fake;
mod orders;
