#include "libs/elastic/job/news_bus.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"

namespace adaptdl::elastic {

void NewsBus::Subscribe(const std::string& topic, Handler handler) {
  if (handler) {
    handlers_[topic] = std::move(handler);
  } else {
    handlers_.erase(topic);
  }
}

void NewsBus::Exchange(const std::function<std::vector<std::string>(const std::string& own)>& gather) {
  const std::vector<std::string> all = gather(nlohmann::json(news_).dump());
  news_.clear();
  due_ = false;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const nlohmann::json items = nlohmann::json::parse(all[rank]);
    for (const auto& item : items) {
      const auto handler = handlers_.find(item.at(0).get<std::string>());
      if (handler == handlers_.end()) continue;
      handler->second(static_cast<int>(rank), item.at(1).get<std::string>());
    }
  }
}

}  // namespace adaptdl::elastic
