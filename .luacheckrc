-- The scripts run inside the server: Lua 5.1, its globals, nothing of the operating system.
std = "lua51"
read_globals = { "redis", "cjson", "cmsgpack", "bit", "struct", "KEYS", "ARGV" }
not_globals = {
  "arg", "debug", "dofile", "io", "load", "loadfile", "module", "newproxy", "os", "package",
  "print", "require",
}
max_line_length = 120
ignore = {
  "431", -- a function's parameter may be named as one of the script's arguments
  "542", -- a branch of `-- check:` lines only
}
