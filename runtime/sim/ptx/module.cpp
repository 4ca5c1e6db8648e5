#include "runtime/sim/ptx/module.h"

namespace corrloom::sim::ptx {
namespace {

struct TypeRow {
  Type type;
  std::string_view name;
  int bits;
};
constexpr TypeRow kTypes[] = {
    {Type::None, "", 0},        {Type::Pred, "pred", 1},      {Type::B8, "b8", 8},          {Type::B16, "b16", 16},
    {Type::B32, "b32", 32},     {Type::B64, "b64", 64},       {Type::B128, "b128", 128},    {Type::U8, "u8", 8},
    {Type::U16, "u16", 16},     {Type::U32, "u32", 32},       {Type::U64, "u64", 64},       {Type::S8, "s8", 8},
    {Type::S16, "s16", 16},     {Type::S32, "s32", 32},       {Type::S64, "s64", 64},       {Type::F16, "f16", 16},
    {Type::F16x2, "f16x2", 32}, {Type::BF16, "bf16", 16},     {Type::BF16x2, "bf16x2", 32}, {Type::TF32, "tf32", 32},
    {Type::F32, "f32", 32},     {Type::F32x2, "f32x2", 64},   {Type::F64, "f64", 64},       {Type::E4M3, "e4m3", 8},
    {Type::E5M2, "e5m2", 8},    {Type::E4M3x2, "e4m3x2", 16}, {Type::E5M2x2, "e5m2x2", 16},
};

}  // namespace

int type_bits(Type type) {
  return kTypes[size_t(type)].bits;
}
bool is_float(Type type) {
  return type >= Type::F16;
}
bool is_signed(Type type) {
  return type >= Type::S8 && type <= Type::S64;
}
bool is_unsigned(Type type) {
  return type >= Type::U8 && type <= Type::U64;
}
bool is_untyped(Type type) {
  return type >= Type::B8 && type <= Type::B128;
}
std::string_view type_name(Type type) {
  return kTypes[size_t(type)].name;
}

Type type_of(std::string_view name) {
  for (const TypeRow& row : kTypes) {
    if (row.name == name && row.type != Type::None) return row.type;
  }
  return Type::None;
}

const Function* Module::find_function(std::string_view name) const {
  if (const auto alias = aliases.find(name); alias != aliases.end()) name = alias->second;
  const Function* declared = nullptr;
  for (const Function& function : functions) {
    if (function.name != name) continue;
    if (function.has_body) return &function;
    declared = &function;
  }
  return declared;
}

}  // namespace corrloom::sim::ptx
