#include "lang/Containers.h"
#include <algorithm>

namespace tegula::lang {

namespace {

using Class = std::shared_ptr<const RecordClass>;
using Record = std::shared_ptr<const RecordValue>;

/// The names of the fields are none that a program could write, so that they are no attributes.
const Class &dictClass() {
  static const Class cls =
      std::make_shared<const RecordClass>(RecordClass{RecordClass::Kind::Object, "dict", {"(keys)", "(values)"}, {}});
  return cls;
}
const Class &setClass() {
  static const Class cls =
      std::make_shared<const RecordClass>(RecordClass{RecordClass::Kind::Object, "set", {"(items)"}, {}});
  return cls;
}

Value record(const Class &cls, std::vector<Value> fields) {
  return Value(Record(std::make_shared<const RecordValue>(cls, std::move(fields))));
}

size_t indexOf(const std::vector<Value> &items, const Value &item) {
  return static_cast<size_t>(std::find_if(items.begin(), items.end(), [&](const Value &v) { return equal(v, item); }) -
                             items.begin());
}

} // namespace

bool isDict(const Value &v) { return v.isRecord() && v.record().cls == dictClass(); }
bool isSet(const Value &v) { return v.isRecord() && v.record().cls == setClass(); }

Value makeDict(const std::vector<Value> &keys, const std::vector<Value> &values) {
  std::vector<Value> k, v;
  for (size_t i = 0; i < keys.size(); ++i) {
    size_t at = indexOf(k, keys[i]);
    if (at < k.size()) {
      v[at] = values[i];
      continue;
    }
    k.push_back(keys[i]);
    v.push_back(values[i]);
  }
  return dictOf(std::move(k), std::move(v));
}

Value dictOf(std::vector<Value> keys, std::vector<Value> values) {
  return record(dictClass(), {Value::tuple(std::move(keys)), Value::tuple(std::move(values))});
}
Value setOf(std::vector<Value> items) { return record(setClass(), {Value::tuple(std::move(items))}); }

Value makeSet(const std::vector<Value> &items) {
  std::vector<Value> out;
  for (const Value &i : items)
    if (!contains(out, i))
      out.push_back(i);
  return setOf(std::move(out));
}

const std::vector<Value> &keysOf(const Value &dict) { return dict.record().fields[0].items(); }
const std::vector<Value> &valuesOf(const Value &dict) { return dict.record().fields[1].items(); }
const std::vector<Value> &membersOf(const Value &set) { return set.record().fields[0].items(); }

const Value *findKey(const Value &dict, const Value &key) {
  size_t at = indexOf(keysOf(dict), key);
  return at < keysOf(dict).size() ? &valuesOf(dict)[at] : nullptr;
}

bool contains(const std::vector<Value> &items, const Value &item) { return indexOf(items, item) < items.size(); }

bool equalContainers(const Value &a, const Value &b) {
  const std::vector<Value> &x = a.record().fields[0].items(), &y = b.record().fields[0].items();
  return x.size() == y.size() && std::all_of(x.begin(), x.end(), [&](const Value &k) {
           return isSet(a) ? contains(y, k) : findKey(b, k) && equal(*findKey(a, k), *findKey(b, k));
         });
}

std::string containerText(const Value &v) {
  std::string text;
  const std::vector<Value> &items = v.record().fields[0].items();
  for (size_t i = 0; i < items.size(); ++i)
    text += (i ? ", " : "") + repr(items[i]) + (isDict(v) ? ": " + repr(valuesOf(v)[i]) : "");
  return isSet(v) && items.empty() ? "set()" : "{" + text + "}";
}

} // namespace tegula::lang
