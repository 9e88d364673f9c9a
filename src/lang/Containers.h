// Python's dicts and sets as compile-time values: records of two classes of their own, in order of insertion. Values
// are immutable, so a modification returns a new value. A lookup walks the entries, as they are few.
#pragma once
#include "lang/Value.h"

namespace tegula::lang {

bool isDict(const Value &v);
bool isSet(const Value &v);
/// Later values of a key replace earlier ones, in the place of the first. Both lists have the same length.
Value makeDict(const std::vector<Value> &keys, const std::vector<Value> &values);
/// The same for keys that are known to be distinct, without comparing them.
Value dictOf(std::vector<Value> keys, std::vector<Value> values);
Value setOf(std::vector<Value> items);
/// A set of the items without duplicates of earlier ones.
Value makeSet(const std::vector<Value> &items);
const std::vector<Value> &keysOf(const Value &dict);
const std::vector<Value> &valuesOf(const Value &dict);
const std::vector<Value> &membersOf(const Value &set);
/// Null if there is no such key.
const Value *findKey(const Value &dict, const Value &key);
bool contains(const std::vector<Value> &items, const Value &item);
/// Equality regardless of order.
bool equalContainers(const Value &a, const Value &b);
/// {'a': 1}, {1, 2}
std::string containerText(const Value &v);

} // namespace tegula::lang
