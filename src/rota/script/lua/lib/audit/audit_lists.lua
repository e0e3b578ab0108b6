-- include: findings judge_entries judge_hands judge_lanes judge_notes
-- exports: collections readers collection_key judge
-- The collections a queue consists of, by the word of the judge that looks at their members: their
-- type, and their key or what makes it from a name.
local collections = {
  attempts = { 'hash', k_attempts },
  blocked = { 'zset', k_blocked },
  cancels = { 'hash', k_cancels },
  config = { 'hash', k_config },
  consumers = { 'zset', k_consumers },
  costs = { 'hash', k_costs },
  dead = { 'zset', k_dead },
  deaths = { 'hash', k_deaths },
  delayed = { 'zset', k_delayed },
  durations = { 'hash', k_durations },
  errors = { 'hash', k_errors },
  figures = { 'hash', k_figures },
  gactive = { 'hash', k_gactive },
  glimit = { 'hash', k_glimit },
  gmax = { 'hash', k_gmax },
  grate = { 'hash', k_grate },
  gtat = { 'zset', k_gtat },
  gtemplate = { 'hash', k_gtemplate },
  gwaiting = { 'hash', k_gwaiting },
  gweight = { 'hash', k_gweight },
  hand = { 'hash', k_consumer },
  held = { 'hash', k_held },
  out = { 'zset', k_out },
  owed = { 'zset', k_owed },
  paused = { 'set', k_paused },
  pending = { 'zset', k_pending },
  releases = { 'hash', k_releases },
  ring = { 'zset', k_ring },
  scheduled = { 'zset', k_scheduled },
  sequence = { 'zset', k_sequence },
  stats = { 'hash', k_stats },
  templates = { 'hash', k_templates },
  why = { 'hash', k_why },
}
local readers = {
  hash = { 'HSCAN', 'HGET', 2 },
  set = { 'SSCAN', 'SISMEMBER', 1 },
  zset = { 'ZSCAN', 'ZSCORE', 2 },
}

local function collection_key(collection, name)
  local key = collection[2]
  return type(key) == 'function' and key(name) or key
end

local judges = {}
for _, some_judges in ipairs({ entry_judges, hand_judges, note_judges, lane_judges }) do
  for word, look in pairs(some_judges) do
    judges[word] = look
  end
end

-- What a key of the wrong type, or an odd value, throws at a judge is a finding of its own.
local function judge(kind, name, member, value)
  begin_judging(kind, name, member)
  local ok, trouble = pcall(judges[kind], name, member, value)
  if not ok then
    report('key', kind .. ' ' .. (member or name), 'cannot be looked at: ' .. message_of(trouble))
  end
end
