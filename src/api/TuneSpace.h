// Configurations of tuners from what callers give: single configurations, spaces, or nothing.
#pragma once
#include "api/TuneSubject.h"

namespace tegula::api {

/// Checks and copies a configuration of the caller. False: the last error is set.
bool readConfig(TegulaFunction &f, const TegulaConfig &c, TuneConfig &out);

/// The points of a list's configurations in the space of their values.
std::vector<tune::Point> pointsOf(const std::vector<TuneConfig> &configs);

/// All configurations of a space, and their points in it. False: the last error is set.
bool readSpace(TegulaFunction &f, const TegulaSpace &space, std::vector<TuneConfig> &out,
               std::vector<tune::Point> &points);

/// The configurations that tune/Recipe.h proposes for a call, and the recipe as JSON. False: the last error is set.
bool proposeConfigs(TegulaFunction &f, const TuneSubject::Call &call, const TegulaArg *args, size_t count,
                    std::vector<TuneConfig> &out, std::vector<tune::Point> &points, std::string &recipe);

} // namespace tegula::api
