-- include: header_text
-- exports: REWRITE_BYTES affords_bytes cut_to_bytes rewrite
-- state: bytes_used
-- Rewriting many records in one call, within the bounds of a call: jobs, and bytes of records where
-- the queue has large payloads.
local REWRITE_BYTES = 2097152
local large_records = redis.call('HGET', k_config, 'large')
local bytes_used = 0 -- only read elsewhere

-- Whether the call may rewrite this job too.
local function affords_bytes(id)
  if not large_records then
    return true
  end
  local size = redis.call('STRLEN', k_job(id))
  if bytes_used > 0 and bytes_used + size > REWRITE_BYTES then
    return false
  end
  bytes_used = bytes_used + size
  return true
end

-- The part of `ids`, from the front, that the call may rewrite; one at least.
local function cut_to_bytes(ids)
  local kept = {}
  for i, id in ipairs(ids) do
    if not affords_bytes(id) then
      if i > 1 then
        break
      end
      bytes_used = REWRITE_BYTES
    end
    kept[i] = id
  end
  return kept
end

-- Gives each record that can be taken apart to `change(record, i)`, which says whether it changed it,
-- and writes those it did. Returns the set of their indexes, and their number.
local function rewrite(ids, change)
  local names, records, done, count = {}, {}, {}, 0
  for i, id in ipairs(ids) do
    names[i] = k_job(id)
  end
  if #ids == 0 then
    return done, count
  end
  for i, text in ipairs(redis.call('MGET', unpack(names))) do
    local record = open_record(text)
    if record and change(record, i) then
      records[#records + 1] = names[i]
      records[#records + 1] = record_text(record)
      done[i] = true
      count = count + 1
    end
  end
  if count > 0 then
    redis.call('MSET', unpack(records))
  end
  return done, count
end
