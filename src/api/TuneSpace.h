// Configurations of tuners from what callers give: single ones, spaces, or nothing at all.
#pragma once
#include "api/TuneSubject.h"

namespace tegula::api {

/// A configuration of the caller's, checked and copied. False: the last error is set.
bool readConfig(TegulaFunction &f, const TegulaConfig &c, TuneConfig &out);

/// Where configurations of a list are in the space of their values.
std::vector<tune::Point> pointsOf(const std::vector<TuneConfig> &configs);

/// All configurations of a space, and where in it they are. False: the last error is set.
bool readSpace(TegulaFunction &f, const TegulaSpace &space, std::vector<TuneConfig> &out,
               std::vector<tune::Point> &points);

/// Those that tune/Recipe.h proposes for a call, and the recipe as JSON. False: the last error is set.
bool proposeConfigs(TegulaFunction &f, const TuneSubject::Call &call, const TegulaArg *args, size_t count,
                    std::vector<TuneConfig> &out, std::vector<tune::Point> &points, std::string &recipe);

} // namespace tegula::api
