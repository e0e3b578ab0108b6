-- exports: begin_mending note note_large add_work begin_judging report report_field message_of
-- exports: is_count is_text
-- state: findings notes large work
-- What contradicts the invariants. A judge looks at one thing within one script: what it reports was
-- so at that moment, and in a script that mends it is mended in that same moment. findings, notes and
-- large are what audit_page and audit_mend reply, work how much was done; they are only read elsewhere.
-- fields: kind subject what mended judge name member
local findings, notes, large = {}, {}, {}
local judged = {}
local work = 0
local mending = false

local function begin_mending()
  mending = true
end

local function note(text)
  notes[#notes + 1] = text
end

local function note_large(name)
  large[#large + 1] = name
end

local function add_work(amount)
  work = work + amount
end

-- What the next reports are about.
local function begin_judging(kind, name, member)
  judged = { kind, name, member or '' }
end

-- `mend` may be absent, or answer false: such a thing needs a person.
local function report(kind, subject, what, mend)
  local mended = 0
  if mending and mend then
    mended = mend() == false and 0 or 1
  end
  findings[#findings + 1] = { kind, subject, what, mended, judged[1], judged[2], judged[3] }
end

-- Reports a field that is of no use; mended, it is gone.
local function report_field(kind, subject, what, key, field)
  report(kind, subject, what, function()
    redis.call('HDEL', key, field)
  end)
end

local function message_of(trouble)
  return type(trouble) == 'table' and trouble.err or tostring(trouble)
end

-- What values may look like.
local function is_count(value)
  return value:match('^%d+$')
end

local function is_text()
  return true
end
